"""GPUs that other people or programs fill: a trial that ran out of memory for them waits for room.

Such a trial is neither failed nor infeasible, and its batch is not split: what it needs would have fit
without the others. It is requeued, keeps what it has trained, and is proposed again once a GPU has the room.
Others train on meanwhile. Where trials run out on a GPU one after another, it gets none until there is room.
What a trial needs is known only as far as it has come. So one that has run out twice on a GPU is tried there
again only once others leave more of it than before.

The memory of GPUs is looked at only while a trial waits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.tune.experiment import Trial

from sweeps.common.formatting import GB
from sweeps.common.gpus import CONTEXT_GB, GpuProcess
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.ray_cluster import nodes, placement
from sweeps.ray_cluster.gpus import list_gpus, own_processes
from sweeps.search.search_method import RecordSearcher
from sweeps.trial.messages import OutOfMemory, Shortage, message_of

LOOK_EVERY_S = 5.0
MOST_IN_A_ROW = 2
"""Trials that run out on a GPU, without an epoch of another one in between, before it gets no more."""
TOLD_EVERY_S = 60.0
MORE_ROOM_BYTES = CONTEXT_GB * GB
"""By so much the room has to grow where a trial ran out twice, and by as much more after each time: less may
be what CUDA took for its process."""
GpuOfNode = tuple[str, str]
"""Ray's id of the PC, and the UUID of the GPU."""
GpuOfProcess = tuple[str, ...]
"""Ray's id of the PC, and what Ray calls the GPU; for a process whose workers have the GPUs, its name."""


@dataclass(frozen=True)
class Room:
    """Memory of a GPU."""

    bytes_: float
    """That others leave."""
    others: frozenset[int] = frozenset()
    """Process ids of those that are in the way."""


@dataclass(frozen=True)
class _Wait:
    """A trial that waits for room."""

    number: int
    shortage: Shortage
    process: TrialActor
    """In which it ran out of memory."""
    told: str

    @property
    def gpu(self) -> GpuOfNode:
        """On which it ran out of memory."""
        return self.shortage.node, self.shortage.card.uuid


class FullGpus(DriverCallback):
    """Holds such trials back until there is room."""

    def __init__(
        self,
        context: RunContext,
        searcher: RecordSearcher,
        processes: TrialActors,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._searcher, self._processes, self._clock = context, searcher, processes, clock
        self._waiting: dict[int, _Wait] = {}
        self._tried: set[tuple[int, GpuOfNode]] = set()
        """Numbers of trials and the GPUs on which they ran out, which had no room for them since."""
        self._rooms: dict[tuple[int, GpuOfNode], list[Room]] = {}
        """By trial and GPU, the room each time when it ran out there."""
        self._in_a_row: Counter[GpuOfProcess] = Counter()
        """Trials that ran out on a GPU since the last epoch there."""
        self._closed: dict[GpuOfProcess, _Wait] = {}
        """GPUs that get no trial, and for what."""
        self._elsewhere: set[GpuOfProcess] = set()
        """Of these, those that get none only until their trial has a place elsewhere."""
        self._asked: dict[Any, Any] = {}
        self._look_next = self._tell_next = 0.0

    def closed_places(self, gpus: float) -> int:
        """Free places on GPUs that get no trial now, for trials that take so many GPUs each. A trial that has
        its memory there goes on."""
        on_each = placement.trials_on_gpu(gpus)
        at_work = Counter(map(_gpu_of, self._processes.training()))
        return sum(max(0, on_each - at_work[gpu]) for gpu in self._closed)

    def is_waiting(self, number: int) -> bool:
        """Whether a trial is not to be proposed now."""
        return number in self._waiting

    def take(self, trial: Trial, end: OutOfMemory) -> bool:
        """Requeue a trial that ran out of memory, where it is not to blame; whether that is so."""
        process, shortage = self._processes.last_of(trial), end.shortage
        if process is None or shortage is None or not (others := self._others(shortage)):
            return False
        number = trial.config["number"]
        told = shortage.told(others)
        notice = f"{told} when it ran out of memory: it is tried again when there is room"
        if notice not in self._context.record.trials[number].notices:
            self._context.say(f"Trial {number}: {notice}")
            self._context.record.notice(number, notice)
        wait = self._waiting[number] = _Wait(number, shortage, process, told)
        room = Room(shortage.room_bytes(self._own_on(shortage.node)), frozenset(each.pid for each in others))
        self._rooms.setdefault((number, wait.gpu), []).append(room)
        gpu = _gpu_of(process)
        self._in_a_row[gpu] += 1
        if (number, wait.gpu) in self._tried or self._in_a_row[gpu] >= MOST_IN_A_ROW:
            self._closed[gpu] = wait
            self._elsewhere.discard(gpu)
        self._tried.add((number, wait.gpu))
        self._searcher.requeue(number)
        return True

    def others_in_words(self, end: OutOfMemory) -> str:
        """Who held the memory that a trial lacked: `GPU 0 of pc1 was used by ...`; "" where it is its own."""
        others = [] if end.shortage is None else self._others(end.shortage)
        return end.shortage.told(others) if end.shortage is not None and others else ""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """With an epoch a GPU has shown that trials fit on it."""
        process = self._processes.actor_of(trial)
        if process is not None and message_of(result).report is not None:
            self._in_a_row.pop(_gpu_of(process), None)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Look whether there is room."""
        self.look()
        if self._processes.training():
            self._context.places.note_wait("")

    def wait(self) -> bool:
        """Look while Tune waits for its searcher, and tell why nothing trains; whether that is for memory."""
        self.look()
        is_closed = bool(self._closed) and not self._searcher.slots and not self._context.places.waits
        if not (self._waiting or is_closed) or self._processes.training():
            self._context.places.note_wait("")
            return False
        waits = self._waiting or {wait.number: wait for wait in self._closed.values()}
        why = "; ".join(dict.fromkeys(wait.told for wait in waits.values()))
        self._context.places.note_wait(f"memory of a GPU: {why}")
        if self._tell_next == 0.0 or (
            self._clock() >= self._tell_next and not self._context.console.is_terminal
        ):
            numbers = ", ".join(map(str, sorted(self._waiting)))
            who = f"trials {numbers} wait" if len(self._waiting) > 1 else f"trial {numbers} waits"
            who = who if self._waiting else "the sweep waits"
            self._context.say(f"Nothing trains: {who} for memory of a GPU. {why}")
            self._tell_next = self._clock() + TOLD_EVERY_S
        return True

    def look(self) -> None:
        """Let trials go on for which there is room now."""
        if not self._waiting and not self._closed:
            return
        at_work = {process.trial.config["number"] for process in self._processes.training()}
        for gpu in [*self._elsewhere]:
            number = self._closed[gpu].number
            if number in at_work or self._context.record.trials[number].status != "unfinished":
                self._open(gpu)
        for process in self._processes.all():
            if _gpu_of(process) in self._closed and not process.has_trial:
                self._processes.end(process)
        if not self._asked and self._clock() >= self._look_next:
            several = self._context.config.workers_per_trial > 1  # whose processes are not known here
            self._asked = {
                nodes.begin_on(pc.id, _rooms_here, self._own_on(pc.id), several): pc
                for pc in self._context.cluster.nodes()
            }
        if self._asked and not ray.wait([*self._asked], num_returns=len(self._asked), timeout=0)[1]:
            answers = nodes.answers(self._asked, 0)
            self._asked, self._look_next = {}, self._clock() + LOOK_EVERY_S
            known = {pc.id: answer.value or {} for pc, answer in answers.items()}
            self._release({(node, gpu): room for node in known for gpu, room in known[node].items()})

    def _release(self, rooms: Mapping[GpuOfNode, Room]) -> None:
        """Propose the trials again for which a GPU has room, by what others leave of each GPU now."""

        def has_room(wait: _Wait, gpu: GpuOfNode) -> bool:
            room = rooms.get(gpu, Room(0))
            return room.bytes_ >= wait.shortage.needed_bytes and self._is_more(wait.number, gpu, room)

        for gpu in [gpu for gpu, wait in self._closed.items() if has_room(wait, wait.gpu)]:
            self._open(gpu)
        for number, wait in [*self._waiting.items()]:
            if has_room(wait, wait.gpu):
                self._tried.discard((number, wait.gpu))
            elif any(has_room(wait, gpu) for gpu in rooms if gpu != wait.gpu):
                if (full := _gpu_of(wait.process)) not in self._closed:
                    self._closed[full] = wait  # else a process there may have the trial again
                    self._elsewhere.add(full)
            else:
                continue
            del self._waiting[number]
            self._tell_next = 0.0

    def _open(self, gpu: GpuOfProcess) -> None:
        del self._closed[gpu]
        self._elsewhere.discard(gpu)

    def _is_more(self, number: int, gpu: GpuOfNode, room: Room) -> bool:
        """Whether a trial may be tried on a GPU: others leave more of it than when the trial ran out there at
        last, or one of these has ended. After the first time, its need alone decides."""
        *before, last = self._rooms.get((number, gpu), [Room(0)])
        return (
            not before
            or room.bytes_ >= last.bytes_ + len(before) * MORE_ROOM_BYTES
            or not last.others <= room.others
        )

    def _others(self, shortage: Shortage) -> list[GpuProcess]:
        return shortage.others(self._own_on(shortage.node))

    def _own_on(self, node: str) -> set[int]:
        return {each.own.pid for each in self._processes.all() if each.locate() and each.own.node == node}


def _gpu_of(process: TrialActor) -> GpuOfProcess:
    """The GPU that a process has, or a part of it."""
    return (process.own.node, *process.own.gpus) if process.own.gpus else (process.name,)


def _rooms_here(own: Collection[int], all_of_ray: bool) -> dict[str, Room]:
    """By UUID of a GPU of this PC, what of its memory nobody holds but these processes, or those of all of
    this Ray."""
    own = {*own, *own_processes()} if all_of_ray else own
    return {
        card.uuid: Room(card.room_bytes(own), frozenset(each.pid for each in card.neighbours(own)))
        for card in list_gpus()
    }
