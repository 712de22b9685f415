"""A trial that hangs: a call that never returns (of a loader, of a network, between GPUs) leaves its process
there. It reads no signal and answers nothing, so that only its silence tells: the user is told, and it is
ended where that was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ray.tune.experiment import Trial

from sweeps.common.formatting import duration
from sweeps.config.sweep_folder import control_command
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.trial.messages import message_of

TOLD_AFTER_S, TOLD_AFTER_EPOCHS = 300.0, 10.0
"""A silent trial is told of after so long, and after so many times the longest epoch; again when it has been
silent for twice as long."""
TOLD_AT_FIRST_S = 1800.0
"""The same before the first epoch."""
MOST_BETWEEN_TURNS_S = 10.0
"""A turn of Tune's loop takes less. While it waits, for space on the disk say, no trial can report."""


class HungTrials(DriverCallback):
    """Measures the silence of each trial in training."""

    def __init__(
        self, context: RunContext, processes: TrialActors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context, self._processes, self._clock = context, processes, clock
        self._turned_at, self._longest_epoch_s = clock(), 0.0

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """The silence begins anew."""
        self._hear(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """The silence begins anew."""
        if (report := message_of(result).report) is not None:
            self._longest_epoch_s = max(self._longest_epoch_s, report.seconds)
        self._hear(trial)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Tell of those that are silent, and end the processes of those that are silent for too long."""
        now = self._clock()
        passed, self._turned_at = min(now - self._turned_at, MOST_BETWEEN_TURNS_S), now
        config = self._context.config
        for process in self._processes.training():
            process.silent_s += passed
            number = process.trial.config["number"]
            is_to_stop = self._context.record.is_to_stop(number)
            is_silent = process.silent_s > process.told_at_s
            if is_to_stop and process.leaves_in_s is None and is_silent:
                process.leaves_in_s = config.stop_grace  # it hangs in an epoch that is trained again
            if is_to_stop and process.leaves_in_s is not None:
                process.leaves_in_s -= passed
                if process.leaves_in_s <= 0:
                    self._processes.not_left[number] += 1  # it is withdrawn, as one that waits
                    self._end(process, f"has not left within {duration(config.stop_grace)}")
                    continue
            most, points = config.epoch_timeout_minutes, 2 if process.preflight is not None else 1
            if most is not None and process.silent_s > points * most * 60:
                why = f"no epoch within {most:g} min (--epoch-timeout-minutes)"
                self._end(process, f"has reported {why}", why)
            elif is_silent and not is_to_stop:
                self._tell(process)

    def _hear(self, trial: Trial) -> None:
        if (process := self._processes.actor_of(trial)) is not None:
            longest = self._longest_epoch_s
            process.silent_s, process.leaves_in_s = 0.0, None
            process.told_at_s = max(TOLD_AFTER_S, TOLD_AFTER_EPOCHS * longest) if longest else TOLD_AT_FIRST_S

    def _tell(self, process: TrialActor) -> None:
        process.told_at_s = 2 * process.silent_s
        number = process.trial.config["number"]
        stop = control_command(self._context.plan.folder, "stop", str(number))
        self._context.say(
            f"Trial {number} has reported nothing for {duration(process.silent_s)}. If it hangs, end it: "
            f"{stop} (--epoch-timeout-minutes ends such trials)"
        )

    def _end(self, process: TrialActor, why: str, fault: str = "") -> None:
        self._context.say(f"Trial {process.trial.config['number']} {why}: its process is ended")
        self._processes.end(process, fault)
