"""The actors of a worker group: start, call, watch and end all its workers but the first."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.common.errors import first_line
from sweeps.trial import output
from sweeps.trial.job import Job
from sweeps.trial.member import Answer, Member
from sweeps.trial.messages import Failure, Unfit, WorkerFailed, WorkerUnfit, give_up

COLLECTIVE = ("train", "save")
"""Methods of a member with collective operations, in which each worker waits for the others."""
END_S = 3
"""Seconds in which all workers may fail by an error that they have in common."""
STUCK_S = 300
"""Seconds until the next collective operation of the first worker. It fails there if the process of another
worker has ended."""
POLL_S = 1.0
_ending = threading.Lock()
"""Two threads may find a lost member: the second one must not end this process while the first one reads
its words."""
_introductions: list[Any] = []
"""Of all members that this process has started: Ray references to what `Member.introduce` returns."""


class Members:
    """An actor in each bundle of the trial's placement group but the first, where this process is.

    Args:
        job: of the sweep.
        abort: ends a wait of this process in NCCL, which the end of another process does not end.
    """

    def __init__(self, job: Job, abort: Callable[[], None]) -> None:
        self._job, self._abort = job, abort
        self._calls: list[Any] = []
        self.has_killed_one = False
        """Whether a member that failed alone was killed: what fails here then only follows from it."""
        self._has_broken_one = False
        """Whether the GPU of a member computes no more in its process."""
        self._unread = ""
        """Printed by members that were killed."""
        self._waits = threading.Event()
        """Set while the first worker waits for the members, and hence is in no collective operation."""
        self.actors = self._started()

    def call(self, name: str, *arguments: Any) -> None:
        """Start a method of each member, to run while the first worker does the same."""
        self._calls = [getattr(actor, name).remote(*arguments) for actor in self.actors]
        self._waits = threading.Event()
        if name in COLLECTIVE:
            running = dict(zip(self._calls, self.actors, strict=True))
            threading.Thread(target=self._watch, args=(running, self._waits), daemon=True).start()

    def results(self) -> list[Any]:
        """Wait for the calls; what they return.

        Raises:
            WorkerUnfit: the PC of a member can't train.
            WorkerFailed: a member failed.
        """
        self._waits.set()
        _wait(self._calls, None)
        calls, self._calls = self._calls, []
        answers = [answer_of(ref) for ref in calls]  # all of them: a lost member counts first
        self._note_broken(answers)
        return [value_of(answer) for answer in answers]

    def failures(self, most_s: float) -> Iterator[Failure]:
        """The failures of the calls, each as soon as it is known, for at most that many seconds."""
        waiting, began = list(self._calls), time.monotonic()
        while waiting and time.monotonic() - began < most_s:
            done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=POLL_S)
            yield from (each.failure for each in map(answer_of, done) if each.failure is not None)

    def printed(self) -> str:
        """What the members printed since the last call, each line with the number of its worker."""
        calls = [actor.printed.remote() for actor in self.actors]
        known, _ = ray.wait(calls, num_returns=len(calls), timeout=END_S)  # others have just been started
        texts = [ray.get(ref) if ref in known else "" for ref in calls]
        before, self._unread = self._unread, ""
        return before + "".join(output.marked(text, rank) for rank, text in enumerate(texts, start=1))

    def end(self) -> None:
        """Let the members end, with the process of the first worker."""
        ray.wait([actor.end.remote() for actor in self.actors], num_returns=len(self.actors), timeout=END_S)

    def leave(self) -> None:
        """End the trial of all members. They stay warm for the next one, unless one of them is stuck."""
        self._waits.set()
        calls, self._calls = self._calls, []
        waiting = _wait(calls, END_S)
        for ref in set(calls) - set(waiting):  # also of answers that nobody has waited for
            with contextlib.suppress(RayError):  # of one that was killed, or lost
                self._note_broken([ray.get(ref)])
        if not waiting and not self.has_killed_one and not self._has_broken_one:
            for actor in self.actors:
                actor.leave.remote()
            return
        for actor in self.actors:
            ray.kill(actor)
        self._unread += _last_words()
        self.has_killed_one = self._has_broken_one = False
        self.actors = self._started()

    def _note_broken(self, answers: Iterable[Answer]) -> None:
        self._has_broken_one |= any(answer.is_broken for answer in answers)

    def _started(self) -> list[Any]:
        group = ray.util.get_current_placement_group()
        assert group is not None, "Tune places each trial in a placement group"
        actors: list[Any] = []
        for rank in range(1, self._job.fit.workers):
            bundle = group.bundle_specs[rank]
            actor = ray.remote(Member).options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, rank),
                max_restarts=0,
            )
            member: Any = actor.remote(self._job, rank)
            _introductions.append(member.introduce.remote())
            actors.append(member)
        return actors

    def _watch(self, running: dict[Any, Any], waits: threading.Event) -> None:
        """Kill a member that has failed while the first worker may wait for it in a collective operation.

        gloo can't leave one (after `abort` of PyTorch 2.13 the other workers still wait); only the end of a
        process closes its connections, and so ends the wait.
        """
        ends_at, why = float("inf"), ""
        aborting: threading.Thread | None = None
        while not waits.wait(0 if running else POLL_S):
            done = ray.wait(list(running), timeout=POLL_S)[0] if running else []
            for ref in done:
                actor, failure = running.pop(ref), answer_of(ref).failure
                if failure is not None and not waits.wait(END_S):
                    ends_at, self.has_killed_one = time.monotonic() + STUCK_S, True
                    why = failure.reason
                    ray.kill(actor)
            if why and (aborting is None or not aborting.is_alive()):  # again: more groups may be formed
                aborting = threading.Thread(target=self._abort, daemon=True)  # which may take long
                aborting.start()
            if time.monotonic() > ends_at:
                give_up(f"a worker has failed, and this one has been stuck for {STUCK_S} s: {why}")


def answer_of(ref: Any) -> Answer:
    """The answer of a member; the end of this process where the member is lost."""
    try:
        answer: Answer = ray.get(ref)
    except RayActorError as error:
        with _ending:
            print(_last_words(), end="", file=sys.stderr)
            give_up(f"a worker is lost: {first_line(error)}")
    return answer


def _last_words() -> str:
    """What members of this process printed that was not taken yet; nothing is kept after that."""
    found = []
    for ref in _introductions:
        with contextlib.suppress(RayError):  # one ended while it started
            member = ray.get(ref, timeout=0)
            words, _ = output.examine_on(member.node, member.output_file)
            found.append(output.marked(words, member.rank))
    _introductions.clear()
    return "".join(found)


def value_of(answer: Answer) -> Any:
    """The value of an answer; its failure is raised."""
    if answer.failure is not None:
        raise (WorkerUnfit if isinstance(answer.failure, Unfit) else WorkerFailed)(answer.failure)
    return answer.value


def _wait(calls: Sequence[Any], most_s: float | None) -> list[Any]:
    """Wait for calls; those that are not done within that many seconds. The placement group may never be
    complete again after the loss of a PC: that ends this process."""
    group = ray.util.get_current_placement_group()
    waiting, began = list(calls), time.monotonic()
    while waiting and (most_s is None or time.monotonic() - began < most_s):
        _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=POLL_S)
        if waiting and ray.util.placement_group_table(group).get("state") == "RESCHEDULING":
            give_up("a PC of its workers is lost")
    return waiting
