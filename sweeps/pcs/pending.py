"""What is free on PCs, and why something waits that needs so much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Resources = Mapping[str, float]
"""Amount of each resource, by Ray's names (CPU, GPU, memory in bytes, the user's own)."""
NEGLIGIBLE = 1e-4
"""Ray counts in ten-thousandths."""


@dataclass(frozen=True)
class Offer:
    """The resources of a PC, and what is taken of them."""

    name: str
    has: Resources
    taken: Resources

    def free(self, resource: str) -> float:
        """The amount that is not taken."""
        return self.has.get(resource, 0.0) - self.taken.get(resource, 0.0)

    def lacks(self, needs: Resources) -> dict[str, float]:
        """The resources of which too little is free, and how much is missing."""
        missing = {name: amount - self.free(name) for name, amount in needs.items()}
        return {name: amount for name, amount in missing.items() if amount > NEGLIGIBLE}

    def share_missing(self, needs: Resources) -> float:
        """What is missing, as a share of what is needed, summed over all resources."""
        return sum(missing / needs[name] for name, missing in self.lacks(needs).items())


def why(bundles: Sequence[Resources], pcs: Sequence[Offer]) -> str:
    """For what these, all of which must be placed at the same time, wait; "" where all of them fit.

    Args:
        bundles: each is placed on one PC.
        pcs: the PCs that are alive.
    """
    if not pcs:
        return "a PC: the cluster has none"
    left = list(pcs)
    for needs in sorted(bundles, key=lambda bundle: -sum(bundle.values())):
        fitting = next((place for place, pc in enumerate(left) if not pc.lacks(needs)), None)
        if fitting is None:
            return _blocked(needs, left)
        pc = left[fitting]
        names = {*pc.taken, *needs}
        taken = {name: pc.taken.get(name, 0.0) + needs.get(name, 0.0) for name in names}
        left[fitting] = Offer(pc.name, pc.has, taken)
    return ""


def _blocked(needs: Resources, pcs: Sequence[Offer]) -> str:
    """The missing resource, and the closest PC: first those that have enough once other trials have ended."""

    def distance(pc: Offer) -> tuple[float, float]:
        return Offer(pc.name, pc.has, {}).share_missing(needs), pc.share_missing(needs)

    wanted = ", ".join(_in_words(name, amount) for name, amount in needs.items() if amount)
    closest = min(pcs, key=distance)
    if never := Offer(closest.name, closest.has, {}).lacks(needs):
        has = ", ".join(_in_words(name, closest.has.get(name, 0.0)) for name in never)
        return f"{wanted}: no PC has that; the best match is {closest.name} with {has}"
    parts = []
    for name in closest.lacks(needs):
        free = _in_words(name, closest.free(name)) if "memory" in name else f"{closest.free(name):g}"
        parts.append(f"{free} of {_in_words(name, closest.has[name])}")
    return f"{wanted}: no PC has that free now; the best match is {closest.name} with {', '.join(parts)}"


def _in_words(name: str, amount: float) -> str:
    """`2 CPU`, `0.5 GPU`, `8.5 GB memory`."""
    return f"{amount / 1e9:.3g} GB {name}" if "memory" in name else f"{amount:g} {name}"
