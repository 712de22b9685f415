"""Save what trains when a sweep stops early or pauses: every trial is asked to leave at its next step.

A trial that has left stays unfinished in the record, with the position of its checkpoint. One that has not
left within `--stop-grace` continues from the checkpoint before; a pause waits for all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from sweeps.common.formatting import count, duration
from sweeps.execution.run_context import RunContext
from sweeps.execution.trial_actors import TrialActors
from sweeps.record.sweep_info import Outcome


class Leaving:
    """The trials that are in training when the sweep stops.

    Args:
        driver: of the sweep.
        processes: of the trials.
        clock: seconds.
    """

    def __init__(
        self, context: RunContext, processes: TrialActors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context, self._processes, self._clock = context, processes, clock
        self._because = Outcome.RUNNING
        self._ends_at = 0.0

    def go_on(self) -> bool:
        """Ask the trials in training to leave; whether some still have to. Tune's loop calls it in each turn
        from the stop on."""
        training, record, outcome = (
            self._processes.training(),
            self._context.record,
            self._context.end.outcome,
        )
        if not record.is_held or outcome != self._because:
            grace_s = math.inf if outcome is Outcome.PAUSED else self._context.config.stop_grace
            self._because, self._ends_at, record.is_held = outcome, self._clock() + grace_s, True
            if outcome is Outcome.LOST:
                self._context.say(f"Stopping: {self._context.end.error}")
            if training:
                at_most = "" if outcome is Outcome.PAUSED else f", for at most {duration(grace_s)}"
                self._context.say(f"Saving what {count(len(training), 'trial')} trained{at_most} ...")
        if not training or self._clock() >= self._ends_at:
            return False
        self._processes.ask_to_leave(training)
        return True
