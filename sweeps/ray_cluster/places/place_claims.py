"""A sweep's claims to its places, to the actor that divides them (`place_divider.py`)."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster.places import place_divider, shared_sweeps
from sweeps.ray_cluster.places.place_division import Allotment, AnsweredClaim, Claim, Resources
from sweeps.ray_cluster.places.shared_sweeps import this_user
from sweeps.ray_start.ray_folder import versions
from sweeps.ray_start.shared_ray import SharedRay

FIRST_ANSWER_S = 10.0
"""For the answer to the first claim, where others may train. Without one the sweep takes what is free."""
START_AFTER_S = 5.0
"""On a PC where no other sweep has claimed, the first trial starts before the actor does."""
RENEW_EVERY_S = 10.0
"""A sweep that prepares, and has nothing to learn from the answers, claims so often."""
ALONE = Allotment(None)
"""As long as nothing is answered."""
NO_OTHER = "No other sweep trains on the PCs any more."


class PlaceClaims:
    """Claims again and again, without waiting for the answers, and holds the last one.

    Args:
        folder: of the sweep.
        is_on_this_pc: whether its Ray is one of this PC alone.
        here: the use of that Ray.
    """

    def __init__(self, folder: Path, *, is_on_this_pc: bool, here: SharedRay | None = None) -> None:
        self._folder, self._is_on_this_pc, self._here = folder, is_on_this_pc, here
        self.came_s = time.monotonic() if here is None else here.came_s
        """When the sweep came, by its clock: an actor that is started anew then has the same order."""
        self._id = uuid.uuid4().hex
        self._divider: Any = None
        self._answer: Any = None
        """A Ray reference to the answer that is to come."""
        self._claim: Claim | None = None
        """The one that is to be answered."""
        self._claimed_s: float | None = None
        self._started_from_s = 0.0
        self.allotment = ALONE
        """What the sweep may hold, as of the last answer."""
        self._told_others: tuple[str, ...] = ()
        self.left_s: float | None = None
        """Seconds that the sweep still takes, by its own estimate; None while that is not known."""
        self._waits_on, self._waits_from_s = "", 0.0

    def note_wait(self, on: str) -> None:
        """Note what the sweep waits for that the divider does not know, in words; "": for nothing."""
        if on and not self._waits_on:
            self._waits_from_s = time.monotonic()
        self._waits_on = on

    def is_due(self) -> bool:
        """Take the answer that has come; whether to claim again."""
        self._take_answer(0)
        is_recent = (
            self._claimed_s is not None and time.monotonic() < self._claimed_s + place_divider.CLAIM_EVERY_S
        )
        return self._answer is None and not is_recent

    def claim(
        self,
        config: SweepConfig,
        worker: Resources,
        wanted: int,
        held: Mapping[str, int],
        closed: frozenset[str],
    ) -> None:
        """Claim places, and wait for the answer where it is the first one and other sweeps may train.

        Args:
            config: of the sweep, as of now.
            worker: what each worker of a trial takes.
            wanted: trials that it could run at a time.
            held: workers by Ray's id of a PC.
            closed: PCs on which it may place nothing.
        """
        is_first, self._claimed_s = self._claimed_s is None, time.monotonic()
        if self._divider is None:
            self._divider = place_divider.found()
        has_others = is_first and self._divider is not None
        if self._divider is None:
            if is_first and self._is_on_this_pc:
                self._started_from_s = time.monotonic() + START_AFTER_S
            if time.monotonic() < self._started_from_s:
                return
            self._divider = place_divider.started(is_on_this_pc=self._is_on_this_pc)
        self._claim = Claim(
            sweep=self._id,
            name=str(config.name),
            folder=str(self._folder),
            user=this_user(),
            pc=platform.node(),
            pid=os.getpid(),
            job=ray.get_runtime_context().get_job_id(),
            share=config.share,
            priority=config.priority,
            is_queued=config.queue,
            waits_on=self._waits_on,
            waits_s=time.monotonic() - self._waits_from_s if self._waits_on else 0.0,
            age_s=time.monotonic() - self.came_s,
            left_s=self.left_s,
            trial=(worker,) * config.workers_per_trial,
            wanted=wanted,
            held=held,
            closed=closed,
        )
        self._answer = self._divider.claim.remote(self._claim)
        if has_others:
            self._take_answer(FIRST_ANSWER_S)

    def refuse_other_version(self, address: str) -> None:
        """Check that the sweeps of a cluster run with this version of the program. Where there are none, an
        actor of another version is ended.

        Raises:
            UserError: they do not.
        """
        if (divider := place_divider.found()) is None:
            return
        with contextlib.suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            there, here = ray.get(divider.version.remote(), timeout=FIRST_ANSWER_S), versions()["sweeps"]
            if there == here:
                return
            if sweeps := ray.get(divider.names.remote(), timeout=FIRST_ANSWER_S):
                raise UserError(
                    f"--address {address}: {names_of(sweeps)} there run{'' if len(sweeps) > 1 else 's'} with "
                    f"version {there} of this program, and this is {here}. Wait until it has ended, or "
                    "install that version"
                )
            ray.kill(divider)

    @contextlib.contextmanager
    def announced(self, config: SweepConfig, worker: Resources) -> Iterator[None]:
        """Claim none yet, again and again for a block in which the sweep prepares: sweeps of the queue that
        come later wait for this one."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEW_EVERY_S):
                with contextlib.suppress(ray.exceptions.RayError):
                    if self.is_due():
                        self.claim(config, worker, 0, {}, frozenset())

        renewer = threading.Thread(target=renew, daemon=True)
        self.note_wait("it prepares its data" if config.queue else "")
        self.claim_turn(config, worker, 0, frozenset())
        renewer.start()
        try:
            yield
        finally:
            ended.set()
            renewer.join(FIRST_ANSWER_S)
            self.note_wait("")
            self._answer, self._claimed_s, self.allotment = None, None, ALONE

    def claim_turn(
        self, config: SweepConfig, worker: Resources, wanted: int, closed: frozenset[str]
    ) -> Allotment | None:
        """Claim places for a sweep that trains nothing yet, and wait for the answer; None: there is none."""
        if self._divider is None:
            self._divider = place_divider.started(is_on_this_pc=self._is_on_this_pc)
        self.claim(config, worker, wanted, {}, closed)
        self._take_answer(FIRST_ANSWER_S)
        return None if self._divider is None or self._answer is not None else self.allotment

    @property
    def waits(self) -> str:
        """What a sweep without a place waits for, in words; "" where it has one."""
        places, others = self.allotment.places, self.allotment.others
        if places is None or any(places.values()) or not others:
            return ""
        return f"waits for its share: {names_of(others)} {'train' if len(others) > 1 else 'trains'}"

    def news(self) -> str:
        """Which sweeps train on the same PCs, in words; "" where that is as it was told before, in whatever
        phase, or not known yet."""
        others = self.allotment.others
        if self.allotment is ALONE or others == self._told_others:
            return ""
        self._told_others = others
        return f"Shares the PCs with {names_of(others)}." if others else NO_OTHER

    def withdraw(self) -> None:
        """Leave the places to others: the sweep pauses, or has ended."""
        if self._divider is not None:
            with contextlib.suppress(ray.exceptions.RayError):
                self._divider.withdraw.remote(self._id)
        self._answer, self._claimed_s, self.allotment = None, None, ALONE
        self.came_s = time.monotonic()  # after a pause it is behind the others
        if self._here is not None:
            self._here.note_claim("")

    def _take_answer(self, timeout_s: float) -> None:
        if self._answer is None or not ray.wait([self._answer], timeout=timeout_s)[0]:
            return
        answer, self._answer = self._answer, None
        try:
            self.allotment = ray.get(answer)
            if self._here is not None and self._claim is not None:
                known = AnsweredClaim(self._claim, self.allotment, self._claim.age_s)
                self._here.note_claim(shared_sweeps.note_of(known, self._claimed_s or 0.0))
        except ray.exceptions.RayError:  # it is lost: the next claim starts another one
            self._divider = None


def names_of(sweeps: Sequence[str]) -> str:
    """`sweep a`, or `sweeps a, b and c`."""
    *before, last = sweeps
    return f"sweeps {', '.join(before)} and {last}" if before else f"sweep {last}"
