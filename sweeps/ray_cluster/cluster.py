"""The PCs of a sweep that runs: which are there, which leave, and which can't train.

A PC that can't train is left out by its address, so it stays out of this run when it joins again. A PC that
joins gets trials once its GPUs are known to be large enough. Where the Ray of this PC alone ends, the sweep
is interrupted.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray

from sweeps.common.errors import RayLost
from sweeps.common.formatting import count
from sweeps.ray_cluster import ray_internals
from sweeps.ray_cluster.nodes import PC, Node
from sweeps.ray_start import ray_connection
from sweeps.ray_start.shared_ray import SharedRay

LOOK_EVERY_S = 0.5
"""A look is two requests to the head, of 4 ms each."""
LOST_SIGNAL = signal.SIGUSR2
"""To this process by itself, when Ray has ended. (Tune handles SIGUSR1.)"""
INTERRUPTS_S = 10.0
"""After which the main thread is in a call of Ray's that waits for a process that is gone."""


class Cluster:
    """The PCs of a connected Ray, renewed by `look`; a Ray on this PC alone is a cluster of one.

    Args:
        there: PCs from the start.
        living: lists the PCs that are alive; None for a Ray on this PC alone, which stays as it is.
        left_out: address of each PC that can't train, and why.
        leaving: ids of the PCs that are being drained, and when each must be gone.
        clock: seconds.
        check: why a PC that joins can't train, beside GPUs with so much free memory; "" where it can, None
            while that is not known.
        card_bytes: memory that is free on each GPU, at least; 0 where no PC was asked.
        watch: of the Ray on this PC alone.
        here: the use of that Ray.
    """

    def __init__(
        self,
        there: Sequence[Node],
        living: Callable[[], Sequence[Node]] | None = None,
        left_out: Mapping[str, str] | None = None,
        leaving: Callable[[], dict[str, float]] = ray_internals.draining_nodes,
        clock: Callable[[], float] = time.monotonic,
        check: Callable[[Node, float], str | None] = lambda node, card_bytes: "",
        *,
        card_bytes: float = 0,
        watch: RayWatch | None = None,
        here: SharedRay | None = None,
    ) -> None:
        self._living, self._leaving, self._clock, self._check = living, leaving, clock, check
        self.card_bytes, self.watch, self.here = card_bytes, watch or RayWatch(), here
        self._there = {node.id: node for node in there}
        self._admitted = {node.address for node in self._there.values()}
        self._unchecked: frozenset[str] = frozenset()
        self._news: list[str] = []
        self._looked: float | None = None
        self.deadlines: dict[str, float] = {}
        """Ray's id of each PC that leaves, and when it must be gone, as `time.time` has it; 0: any time."""
        self.left_out: dict[str, str] = dict(left_out or {})
        self._used: frozenset[str] = frozenset()
        """Addresses of PCs that are left out for the sake of others on their GPUs."""
        self.is_alone = living is None
        self.pcs_at_start = tuple(self.staying())
        """Resources of the PCs that trained at first."""
        self.look()

    @property
    def size(self) -> str:
        """`2 PCs, 16 CPUs, 2 GPUs`, at the start."""
        pcs = self.pcs_at_start
        cpus, gpus = sum(pc.cpus for pc in pcs), sum(pc.gpus for pc in pcs)
        return ", ".join((count(len(pcs), "PC"), count(cpus, "CPU"), count(gpus, "GPU")))

    @property
    def away(self) -> frozenset[str]:
        """Ray's ids of the PCs on which nothing may run: those that leave, and those that are left out."""
        out = {id_ for id_, node in self._there.items() if node.address in self.left_out}
        return frozenset(out | self.deadlines.keys())

    @property
    def closed(self) -> frozenset[str]:
        """Ray's ids of the PCs on which nothing may begin: `away`, and PCs that are not checked yet. What Ray
        has placed on one of these before it was known goes on."""
        return self.away | self._unchecked

    def look(self) -> None:
        """Ask the cluster, at most every `LOOK_EVERY_S`."""
        is_recent = self._looked is not None and self._clock() < self._looked + LOOK_EVERY_S
        if self._living is None or is_recent:
            return
        there, deadlines = self._there, self.deadlines
        self.deadlines = self._leaving()  # first: a PC that ends between the two requests has left
        self._there = {node.id: node for node in self._living()}
        self._looked = self._clock()
        self._news += [*self._gone(there, deadlines), *self._joined(there)]

    def news(self) -> list[str]:
        """Look; a line for each change since the last call."""
        self.look()
        news, self._news = self._news, []
        return news

    @property
    def there(self) -> list[Node]:
        """All PCs that are there."""
        return list(self._there.values())

    def nodes(self) -> list[Node]:
        """Look; the PCs that train now."""
        self.look()
        return [node for node in self._there.values() if node.id not in self.closed]

    @property
    def pcs(self) -> list[PC]:
        """Resources of the PCs that train, as of the last look."""
        return [node.offer for node in self._there.values() if node.id not in self.closed]

    def staying(self, without: str = "") -> list[PC]:
        """Resources of the PCs that are not left out, but for the one of this id. A PC that leaves counts: it
        may come back."""
        staying = (node for node in self._there.values() if node.address not in self.left_out)
        return [node.offer for node in staying if node.id != without]

    def leave_out(self, node: str, reason: str) -> str:
        """Place nothing more on a PC; the line that says so. "" where it is unknown, or the head, with which
        the cluster would end."""
        pc = self._there.get(node)
        heads = {there.address for there in self._there.values() if there.is_head}
        if pc is None or pc.address in heads:
            return ""
        self.left_out.setdefault(pc.address, reason)
        return f"{pc.name} gets no more trials in this run: {reason}"

    def take_back_used(self) -> None:
        """Count the PCs again on whose GPUs others were, as long as nothing trains."""
        for address in self._used:
            self.left_out.pop(address, None)
        self._used = frozenset()

    def leave_out_used(self, used: Mapping[Node, str], card_bytes: float) -> None:
        """Begin to train on the PCs that are there now, but for those on whose GPUs others are.

        Args:
            used: these, and why they get no trials.
            card_bytes: memory that is free on each GPU of the others, at least.
        """
        self._used = frozenset(node.address for node in used)
        self.left_out |= {node.address: why for node, why in used.items()}
        self.card_bytes = card_bytes
        self.pcs_at_start = tuple(self.staying())

    def is_left_out(self, node: str) -> bool:
        """Whether the PC of this id is left out already."""
        return node in self._there and self._there[node].address in self.left_out

    def _gone(self, there: Mapping[str, Node], deadlines: Mapping[str, float]) -> Iterator[str]:
        for id_, node in there.items():
            if id_ not in self._there:
                is_drained = id_ in deadlines or id_ in self.deadlines
                yield f"{node.name} has left" if is_drained else f"{node.name} is lost"
            elif id_ in self.deadlines and id_ not in deadlines:
                yield f"{node.name} is about to leave: its trials move to other PCs"
            elif id_ in deadlines and id_ not in self.deadlines:
                yield f"{node.name} stays"

    def _joined(self, there: Mapping[str, Node]) -> Iterator[str]:
        """Admit PCs, or leave them out. A PC that was admitted before is not checked again, and
        one that is not known yet is checked at the next look."""
        waiting = set()
        for id_, node in self._there.items():
            if id_ in there and id_ not in self._unchecked:
                continue
            is_known = node.address in self._admitted
            fault: str | None = self.left_out.get(node.address, "")
            if not fault and not is_known:
                fault = self._check(node, self.card_bytes)
            if fault is None:
                waiting.add(id_)
                continue
            if fault:
                self.left_out[node.address] = fault
            self._admitted.add(node.address)
            yield f"{node.name} has joined" + (f", and gets no trials in this run: {fault}" if fault else "")
        self._unchecked = frozenset(waiting)


class RayWatch:
    """Watches some of Ray's processes while a block of the main thread needs them.

    Args:
        processes: their ids by their names; none of a cluster.
    """

    def __init__(self, processes: Mapping[str, int] = {}) -> None:
        self._processes = processes
        self._is_needed = False
        self._is_interrupted = threading.Event()
        self.lost = ""
        """Why this Ray has ended while it was needed; "" where it has not."""

    @contextlib.contextmanager
    def needed(self, last_words: Callable[[], None]) -> Iterator[None]:
        """Interrupt a block of the main thread, as Ctrl-C does, when one of Ray's own processes ends.

        Ray would let the block wait, and end this whole process after some seconds, without a word. Where it
        has ended it is shut down with the block.

        Args:
            last_words: called in another thread where the block is in a call of Ray's that nothing
                interrupts; then this process ends with status 1.

        Raises:
            RayLost: it has ended, and the block has not dealt with that (see `lost`).
        """
        signal.signal(LOST_SIGNAL, self._interrupt)
        self._is_needed = True
        words = (threading.get_ident(), last_words)
        threading.Thread(target=self._watch, args=words, daemon=True).start()
        try:
            yield
        except BaseException:
            if self.lost:
                raise RayLost(self.lost) from None
            raise
        finally:
            self._is_needed = False
            if self.lost:
                ray_connection.shut_down(ray)

    def _watch(self, main_thread: int, last_words: Callable[[], None]) -> None:
        """Wait for the end of one of Ray's processes."""
        watched: dict[int, str] = {}
        gone = ""
        try:
            for name, pid in self._processes.items():
                try:
                    watched[os.pidfd_open(pid)] = name
                except ProcessLookupError:
                    gone = name
            if not gone and watched:
                gone = watched[select.select([*watched], [], [])[0][0]]
        except OSError:  # an old kernel, or a sandbox, opens none: the sweep goes on without this watch
            return
        finally:
            for descriptor in watched:
                os.close(descriptor)
        if gone and self._is_needed:
            why = f"its process {gone} is gone: the kernel ends one where memory runs out"
            self.lost = f"Ray on this PC has ended ({why})"
            signal.pthread_kill(main_thread, LOST_SIGNAL)
            if not self._is_interrupted.wait(INTERRUPTS_S):
                try:
                    last_words()
                finally:
                    os._exit(1)  # with which all that it has started ends

    def _interrupt(self, *_: Any) -> None:
        if not self.lost:  # it came from outside
            return
        self._is_interrupted.set()
        if self._is_needed:
            raise KeyboardInterrupt  # the only exception that a wait of Ray's lets through
