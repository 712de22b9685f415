"""Tune callback of the driver: keeps Tune's memory small.

Of each number in the results of a trial Tune keeps the extremes, the mean and the last values, for as long as
the sweep runs: 1.6 kB per number. A callback may change a result before Tune keeps it
(https://docs.ray.io/en/latest/tune/api/doc/ray.tune.Callback.on_trial_result.html).
"""

from __future__ import annotations

from typing import Any

from ray.tune.experiment import Trial

from sweeps.execution.run_context import DriverCallback

READ_NO_MORE = (
    "score", "metrics", "seconds", "costs", "place", "has_test", "failures", "notices", "output",
    "config", "date", "timestamp", "hostname",
    "time_this_iter_s", "time_total_s", "time_since_restore", "iterations_since_restore",
)  # fmt: skip
"""What is in the record by then, and what Tune's own reporters would show."""


class LeanResults(DriverCallback):
    """Takes out of results what is read no more; the last one of the callbacks."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Before Tune keeps it."""
        for name in READ_NO_MORE:
            result.pop(name, None)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A checkpoint has the result of its time once more; it travels with the trial that goes on."""
        if (checkpoint := trial.latest_checkpoint_result) is not None:
            for name in READ_NO_MORE:
                checkpoint.metrics.pop(name, None)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Of a trial that has ended, or pauses, nothing is asked again."""
        trial.metric_analysis.clear()
        trial.metric_n_steps.clear()

    on_trial_error = on_trial_complete
