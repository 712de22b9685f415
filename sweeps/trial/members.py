"""The processes of a worker group but the first one: started, asked together, watched, and ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.common.errors import first_line
from sweeps.trial.failures import error_of
from sweeps.trial.job import Job
from sweeps.trial.member import Answer, Member

LOST = 70
"""Exit status of a first worker whose trial lost another one."""
TOGETHER = ("train", "save", "end")
"""What all workers do by collective operations, in which one waits for the others."""
ENDS_S = 3
"""Seconds that workers may take to fail together, by an error that all of them have."""
STUCK_S = 300
"""Seconds that the first worker may take to hear that a worker's process has ended: until its next collective
operation. (gloo says so there at once, NCCL never does.)"""
LOOK_S = 1.0


class Members:
    """An actor in each bundle of the trial's placement group but the first, where this process is.

    Args:
        job: what all trials have in common.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._asked: list[Any] = []
        self._has_ended_one = False
        """Whether a member was ended, since it failed alone."""
        self._waits = threading.Event()
        """Set when the first worker waits for what was asked, hence in no collective operation."""
        self.actors = self._started()

    def ask(self, name: str, *arguments: Sequence[Any]) -> None:
        """Let each do something while the first worker does the same.

        Args:
            name: of the method.
            arguments: those of each member; none: it takes none.
        """
        given = arguments or [()] * len(self.actors)
        self._asked = [
            getattr(actor, name).remote(*each) for actor, each in zip(self.actors, given, strict=True)
        ]
        self._waits = threading.Event()
        if name in TOGETHER:
            at_work = dict(zip(self._asked, self.actors, strict=True))
            threading.Thread(target=self._watch, args=(at_work, self._waits), daemon=True).start()

    def answers(self) -> list[Any]:
        """What came of it.

        Raises:
            ElsewhereUnfit: the PC of one can't train.
            WorkerFailed: one failed.
        """
        self._waits.set()
        _wait(self._asked, None)
        asked, self._asked = self._asked, []
        answered = [answer_of(ref) for ref in asked]
        for failure in (failure for failure, _ in answered if failure is not None):
            raise error_of(failure)
        return [value for _, value in answered]

    def failures(self, most_s: float) -> Iterator[dict[str, Any]]:
        """What failed of what was asked, each as soon as it is known, within that time."""
        waiting, began = list(self._asked), time.monotonic()
        while waiting and time.monotonic() - began < most_s:
            answered, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
            found = (answer_of(ref)[0] for ref in answered)
            yield from (failure for failure in found if failure is not None)

    def part(self) -> None:
        """End what they are at of a trial. They stay warm for the next one, if they are at nothing."""
        self._waits.set()
        asked, self._asked = self._asked, []
        if not _wait(asked, ENDS_S) and not self._has_ended_one:
            for actor in self.actors:
                actor.part.remote()
            return
        for actor in self.actors:
            ray.kill(actor)
        self._has_ended_one = False
        self.actors = self._started()

    def _started(self) -> list[Any]:
        group = ray.util.get_current_placement_group()
        assert group is not None, "Tune places a trial by a group"
        actors = []
        for rank in range(1, self._job.fit.workers):
            bundle = dict(group.bundle_specs[rank])
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
            taken = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0)}
            actor = ray.remote(Member).options(scheduling_strategy=place, max_restarts=0, **taken)
            actors.append(actor.remote(self._job))
        return actors

    def _watch(self, at_work: dict[Any, Any], waits: threading.Event) -> None:
        """See the end of another worker, while the first may be in a collective operation and wait for it.

        gloo has no means to leave one (`abort` of PyTorch 2.13 leaves the others waiting): it is the end of a
        process that closes its connections, of which they hear.
        """
        ends_at = float("inf")
        while not waits.wait(0 if at_work else LOOK_S):
            done = ray.wait(list(at_work), timeout=LOOK_S)[0] if at_work else []
            for ref in done:
                actor, failure = at_work.pop(ref), answer_of(ref)[0]
                if failure is not None and not waits.wait(ENDS_S):
                    ends_at, self._has_ended_one = time.monotonic() + STUCK_S, True
                    ray.kill(actor)
            if time.monotonic() > ends_at:
                give_up("a worker failed, and this one does not hear of it")


def give_up(why: str) -> None:
    """End this process, the first worker's: the rest of its worker group goes with it."""
    print(f"trial ends here, and is requeued: {why}", file=sys.stderr, flush=True)
    os._exit(LOST)


def answer_of(ref: Any) -> Answer:
    """What a member answers; the end of this process where it is lost."""
    try:
        answer: Answer = ray.get(ref)
    except RayActorError as error:
        give_up(f"a worker is lost: {first_line(error)}")
        raise
    return answer


def _wait(asked: Sequence[Any], most_s: float | None) -> list[Any]:
    """Those that are not there within that time. A group of which a PC was lost may never be whole again."""
    group = ray.util.get_current_placement_group()
    waiting, began = list(asked), time.monotonic()
    while waiting and (most_s is None or time.monotonic() - began < most_s):
        _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
        if waiting and ray.util.placement_group_table(group)["state"] == "RESCHEDULING":
            give_up("a PC of its workers is lost")
    return waiting
