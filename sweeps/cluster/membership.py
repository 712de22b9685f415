"""The PCs of a cluster while a sweep runs: who is there, who leaves, and who can't train.

A PC that can't is left out by its address, so that it stays out when it joins again; it is not asked again in
this run of the sweep. One that joins gets trials once it is known that its cards are large enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from sweeps.cluster import drain
from sweeps.cluster.nodes import PC, Node

LOOK_EVERY_S = 0.5
"""Two questions to the head, of 4 ms each."""


class Membership:
    """What is known of the PCs, first of those that are `there`; `look` renews it."""

    def __init__(
        self,
        there: Sequence[Node],
        living: Callable[[], Sequence[Node]],
        left_out: Mapping[str, str] | None = None,
        leaving: Callable[[], dict[str, float]] = drain.leaving,
        clock: Callable[[], float] = time.monotonic,
        check: Callable[[Node], str | None] = lambda node: "",
    ) -> None:
        self._living, self._leaving, self._clock, self._check = living, leaving, clock, check
        self._there = {node.id: node for node in there}
        self._admitted = {node.address for node in self._there.values()}
        self._unchecked: frozenset[str] = frozenset()
        self._news: list[str] = []
        self._looked: float | None = None
        self.deadlines: dict[str, float] = {}
        """Ray's id of each PC that leaves to when it shall be gone, as `time.time` has it; 0: any time."""
        self.left_out: dict[str, str] = dict(left_out or {})
        """Address of each PC that can't train to why."""
        self.away: frozenset[str] = frozenset()
        """Ray's ids of the PCs on which nothing is to run: those that leave, and those that are left out."""
        self.look()

    @property
    def closed(self) -> frozenset[str]:
        """Ray's ids of the PCs on which nothing is to begin: those, and who joined and is not let in yet."""
        return self.away | self._unchecked

    def look(self) -> None:
        """Ask the cluster, where it was not just asked."""
        if self._looked is not None and self._clock() < self._looked + LOOK_EVERY_S:
            return
        there, deadlines = self._there, self.deadlines
        self.deadlines = self._leaving()  # first: who ends between the two questions has left
        self._there = {node.id: node for node in self._living()}
        self._looked = self._clock()
        self._news += [*self._gone(there, deadlines), *self._joined(there)]
        self._count()

    def news(self) -> list[str]:
        """Look; what changed of the PCs since this was asked, in words."""
        self.look()
        told, self._news = self._news, []
        return told

    @property
    def nodes(self) -> list[Node]:
        """Those that train."""
        return [node for node in self._there.values() if node.id not in self.closed]

    @property
    def pcs(self) -> list[PC]:
        """What they offer."""
        return [node.offer for node in self.nodes]

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

    def _gone(self, there: Mapping[str, Node], deadlines: Mapping[str, float]) -> Iterator[str]:
        """Of those that were there, some to leave."""
        for id_, node in there.items():
            if id_ not in self._there:
                is_asked_to = id_ in deadlines or id_ in self.deadlines
                yield f"{node.name} has left" if is_asked_to else f"{node.name} is gone"
            elif id_ in self.deadlines and id_ not in deadlines:
                yield f"{node.name} is to leave: its trials go on elsewhere"
            elif id_ in deadlines and id_ not in self.deadlines:
                yield f"{node.name} stays"

    def _joined(self, there: Mapping[str, Node]) -> Iterator[str]:
        """Those that are let in now, or left out. Who was let in before only starts anew."""
        waiting = set()
        for id_, node in self._there.items():
            if id_ in there and id_ not in self._unchecked:
                continue
            is_known = node.address in self._admitted
            fault = self.left_out.get(node.address) or ("" if is_known else self._check(node))
            if fault is None:
                waiting.add(id_)
                continue
            if fault:
                self.left_out[node.address] = fault
            self._admitted.add(node.address)
            yield f"{node.name} has joined" + (f", and gets no trials in this run: {fault}" if fault else "")
        self._unchecked = frozenset(waiting)

    def _count(self) -> None:
        out = {name for name, node in self._there.items() if node.address in self.left_out}
        self.away = frozenset(out | self.deadlines.keys())
