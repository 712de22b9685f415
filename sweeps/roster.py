"""The PCs of a cluster while a sweep runs: who is there, who leaves, and who can't train.

A PC that can't is left out by its address, so that it stays out when it joins again; it is not asked again in
this run of the sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from sweeps import draining
from sweeps.nodes import PC, Node

LOOK_EVERY_S = 0.5
"""Two questions to the head, of 4 ms each."""


class Roster:
    """What is known of the PCs; `look` renews it."""

    def __init__(
        self,
        living: Callable[[], Sequence[Node]],
        left_out: Mapping[str, str] | None = None,
        leaving: Callable[[], dict[str, float]] = draining.leaving,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._living, self._leaving, self._clock = living, leaving, clock
        self._there: dict[str, Node] = {}
        self._looked: float | None = None
        self.deadlines: dict[str, float] = {}
        """Ray's id of each PC that leaves to when it shall be gone, as `time.time` has it; 0: any time."""
        self.left_out: dict[str, str] = dict(left_out or {})
        """Address of each PC that can't train to why."""
        self.away: frozenset[str] = frozenset()
        """Ray's ids of the PCs on which nothing is to run: those that leave, and those that are left out."""
        self.look()

    def look(self) -> list[str]:
        """Ask the cluster, where it was not just asked; what changed of the PCs, in words."""
        if self._looked is not None and self._clock() < self._looked + LOOK_EVERY_S:
            return []
        there, deadlines = self._there, self.deadlines
        self._there = {node.id: node for node in self._living()}
        self.deadlines = self._leaving()
        self._looked = self._clock()
        self._count()
        return [*self._changes(there, deadlines)]

    @property
    def pcs(self) -> list[PC]:
        """What those offer that train."""
        return [node.offer for node in self._there.values() if node.id not in self.away]

    def staying(self, without: str = "") -> list[PC]:
        """What those offer that are not left out, nor the one of this id; those that leave may come back."""
        left_out = self.left_out
        there = self._there.values()
        return [node.offer for node in there if node.address not in left_out and node.id != without]

    def leave_out(self, node: str, reason: str) -> str | None:
        """Place nothing more on a PC, because of what it can't; None where it is the head, which holds all
        together, or of no PC that is known; else what to say of it."""
        pc = self._there.get(node)
        heads = {pc.address for pc in self._there.values() if pc.is_head}
        if pc is None or pc.address in heads:
            return None
        self.left_out.setdefault(pc.address, reason)
        self._count()
        return f"{pc.name} trains no more in this run: {reason}"

    def is_left_out(self, node: str) -> bool:
        """Whether a PC is left out already."""
        return node in self._there and self._there[node].address in self.left_out

    def may_have(self, node: str) -> bool:
        """Whether a PC is there; of one that is not known yet, "", it may be."""
        return not node or node in self._there

    def _changes(self, there: Mapping[str, Node], deadlines: Mapping[str, float]) -> Iterator[str]:
        """From who was there, and who was to leave when, to now."""
        for id_, node in there.items():
            if id_ not in self._there:
                yield f"{node.name} has left" if id_ in deadlines else f"{node.name} is gone"
            elif id_ in self.deadlines and id_ not in deadlines:
                yield f"{node.name} is to leave: its trials go on elsewhere"
            elif id_ in deadlines and id_ not in self.deadlines:
                yield f"{node.name} stays"
        for id_, node in self._there.items():
            if id_ not in there:
                out = self.left_out.get(node.address)
                yield f"{node.name} has joined" + (f", and trains no more in this run: {out}" if out else "")

    def _count(self) -> None:
        out = {name for name, node in self._there.items() if node.address in self.left_out}
        self.away = frozenset(out | self.deadlines.keys())
