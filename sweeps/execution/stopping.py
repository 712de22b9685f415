"""Why and when a sweep ends before its last trial."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from ray.tune import Stopper

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a system that shuts down, a terminal that is closed."""


class End(Stopper):
    """The outcome of a run of a sweep."""

    def __init__(
        self,
        time_budget_hours: float | None,
        used_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._deadline = None if time_budget_hours is None else clock() + time_budget_hours * 3600 - used_s
        self.outcome = "finished"
        """finished, out of time, interrupted, error, or lost (the record, weights or `best/` can't be
        written, or no PC is left on which a trial can continue)."""
        self.error = ""
        """A user's mistake that showed only in training, or why the outcome is lost."""

    def stop(self, outcome: str, error: str = "") -> None:
        """Stop all trials at the next turn of Tune's loop."""
        self.outcome, self.error = outcome, error

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether the sweep must end now."""
        if self._deadline is not None and self._clock() >= self._deadline and self.outcome == "finished":
            self.outcome = "out of time"
        return self.outcome != "finished"


@contextlib.contextmanager
def stops_on_signals(end: End, say: Callable[[str], None]) -> Iterator[None]:
    """End the sweep in order at the first Ctrl-C, and at once at the second."""

    def on_signal(number: int, frame: Any) -> None:
        for name, handler in before.items():
            signal.signal(name, handler)
        if number == signal.SIGHUP:  # writing to a closed terminal raises
            for terminal in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)
        end.stop("interrupted")
        say("Stopping. All results so far are recorded. Press Ctrl-C again to stop at once.")

    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
    handled = [name for name in STOPS if signal.getsignal(name) != signal.SIG_IGN]  # nohup ignores one
    before = {name: signal.signal(name, on_signal) for name in handled}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
