"""Why and when a sweep ends before its last trial."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from ray.tune import Stopper

from sweeps.common.cli import stop_signals
from sweeps.ray_start.kept_here import KeptHere
from sweeps.record.sweep_info import Outcome

SAVING = (Outcome.PAUSED, Outcome.INTERRUPTED, Outcome.OUT_OF_TIME)
"""Outcomes before which the trials save what they have trained."""


class RunEnd(KeptHere, Stopper):
    """The outcome of a run of a sweep.

    Args:
        time_budget_hours: after which the sweep ends.
        elapsed_s: how long it has run.
    """

    def __init__(self, time_budget_hours: float | None, elapsed_s: Callable[[], float] = lambda: 0.0) -> None:
        self.time_budget_hours = time_budget_hours
        self._elapsed_s = elapsed_s
        self.let_leave: Callable[[], bool] = lambda: False
        """Lets the trials of a sweep that stops early save what they have trained; whether some still have
        to."""
        self.outcome = Outcome.RUNNING
        self.error = ""
        """A user's mistake that showed only in training, or why the outcome is lost."""
        self._can_save = False

    def stop(self, outcome: Outcome, error: str = "", *, can_save: bool = False) -> None:
        """Stop all trials at the next turn of Tune's loop, or once they have saved what they have trained.

        Args:
            outcome: of the run.
            error: why, where the outcome is error or lost.
            can_save: whether trials can save although the outcome is lost. These ones always may: paused,
                interrupted, out of time.
        """
        self.outcome, self.error = outcome, error
        self._can_save = can_save

    @property
    def is_open(self) -> bool:
        """Whether commands are taken: it runs, or is paused."""
        return self.outcome in (Outcome.RUNNING, Outcome.PAUSED)

    def left_s(self) -> float | None:
        """Seconds until --time-budget-hours ends the sweep; None without a limit."""
        hours = self.time_budget_hours
        return None if hours is None else max(0.0, hours * 3600 - self._elapsed_s())

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether the sweep must end now."""
        if self.is_used_up and self.is_running:
            self.outcome = Outcome.OUT_OF_TIME
        if self.can_save:
            return not self.let_leave()
        return not self.is_running

    def finish(self) -> None:
        """Note that the sweep has ended, unless it stopped before."""
        if self.is_running:
            self.outcome = Outcome.FINISHED

    @property
    def is_running(self) -> bool:
        """Whether trials begin and train: nothing has stopped the sweep."""
        return self.outcome is Outcome.RUNNING

    @property
    def can_save(self) -> bool:
        """Whether trials save what they have trained before the sweep ends."""
        return self._can_save or self.outcome in SAVING

    @property
    def is_due(self) -> bool:
        """Whether the sweep is to end or to pause, maybe once its trials have left."""
        return not self.is_running or self.is_used_up

    @property
    def is_used_up(self) -> bool:
        """Whether no time is left."""
        return self.left_s() == 0


@contextlib.contextmanager
def stops_on_signals(
    end: RunEnd, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """End the sweep in order at the first signal, and at once at the second Ctrl-C."""

    def stop() -> None:
        end.stop(Outcome.INTERRUPTED)
        say(
            "Stopping. All results so far are recorded. Press Ctrl-C again to stop at once, without saving: "
            "a resume then repeats the running epochs."
        )

    with stop_signals.handled(stop, clock):
        yield
