"""What PCs have and what is taken of it; why something that needs so much waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Resources = Mapping[str, float]
"""Ray's name of a resource (CPU, GPU, memory in bytes, one of the user's) to how much of it."""
NEGLIGIBLE = 1e-4
"""Ray counts in ten-thousandths."""


@dataclass(frozen=True)
class Offer:
    """A PC, and what is taken of it."""

    name: str
    has: Resources
    taken: Resources

    def free(self, resource: str) -> float:
        """How much is left."""
        return self.has.get(resource, 0.0) - self.taken.get(resource, 0.0)

    def lacks(self, needs: Resources) -> dict[str, float]:
        """Of what it has too little left for this, and by how much."""
        return {
            name: much - self.free(name)
            for name, much in needs.items()
            if much - self.free(name) > NEGLIGIBLE
        }

    def with_taken(self, needs: Resources) -> Offer:
        """As it is when this is placed there."""
        names = {*self.taken, *needs}
        return Offer(
            self.name, self.has, {name: self.taken.get(name, 0.0) + needs.get(name, 0.0) for name in names}
        )


def why(bundles: Sequence[Resources], pcs: Sequence[Offer]) -> str:
    """Why these, all of which must have a place at a time, wait; "" where all of them fit.

    Args:
        bundles: each is placed on one PC.
        pcs: those that live.
    """
    if not pcs:
        return "no PC is there"
    left = list(pcs)
    for needs in sorted(bundles, key=lambda bundle: -sum(bundle.values())):
        fitting = next((place for place, pc in enumerate(left) if not pc.lacks(needs)), None)
        if fitting is None:
            return _blocked(needs, left, pcs)
        left[fitting] = left[fitting].with_taken(needs)
    return ""


def amount(name: str, much: float) -> str:
    """`2 CPU`, `0.5 GPU`, `8.5 GB memory`."""
    return f"{much / 1e9:.3g} GB {name}" if "memory" in name else f"{much:g} {name}"


def _blocked(needs: Resources, left: Sequence[Offer], pcs: Sequence[Offer]) -> str:
    """By what, and who comes nearest: who has enough when others have ended, before who never has."""
    empty = {pc.name: Offer(pc.name, pc.has, {}) for pc in pcs}

    def distance(pc: Offer) -> tuple[float, float]:
        never, now = empty[pc.name].lacks(needs), pc.lacks(needs)
        return sum(lack / needs[name] for name, lack in never.items()), sum(
            lack / needs[name] for name, lack in now.items()
        )

    nearest = min(left, key=distance)
    wanted = ", ".join(amount(name, much) for name, much in needs.items() if much)
    never = empty[nearest.name].lacks(needs)
    if never:
        has = ", ".join(f"{amount(name, nearest.has.get(name, 0.0))}" for name in never)
        return f"needs {wanted}: no PC has that; {nearest.name} comes nearest, with {has}"
    parts = (
        f"{nearest.free(name):g} of {amount(name, nearest.has[name])}"
        if "memory" not in name
        else f"{amount(name, nearest.free(name))} of {amount(name, nearest.has[name])}"
        for name in nearest.lacks(needs)
    )
    return f"needs {wanted}: waits until that is free; {nearest.name} comes nearest, with {', '.join(parts)}"
