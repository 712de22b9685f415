"""Save what is in training when a sweep stops early: every trial is asked to leave at its next step.

A trial that has left stays unfinished in the record, with the position of its checkpoint. One that has not
left within `--stop-grace` continues from the checkpoint before.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sweeps.common.formatting import count, duration
from sweeps.execution.driver import Driver
from sweeps.execution.processes import Processes


class Leaving:
    """The trials that are in training when the sweep stops.

    Args:
        driver: of the sweep.
        processes: of the trials.
        clock: seconds.
    """

    def __init__(
        self, driver: Driver, processes: Processes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._driver, self._processes, self._clock = driver, processes, clock
        self._ends_at: float | None = None

    def go_on(self) -> bool:
        """Ask the trials in training to leave; whether some still have to. Tune's loop calls it in each turn
        from the stop on."""
        training = self._processes.training()
        if self._ends_at is None:
            grace_s = self._driver.config.stop_grace
            self._ends_at = self._clock() + grace_s
            self._driver.record.is_held = True
            if training:
                them = count(len(training), "trial")
                self._driver.say(f"Saving what {them} trained, for at most {duration(grace_s)} ...")
        if not training or self._clock() >= self._ends_at:
            return False
        self._processes.ask_to_leave(training)
        return True
