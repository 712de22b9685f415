"""XGBoost: every so many rounds are a report.

xgboost.train(settings, rows, rounds_left(trial, 10), evals=[(validation_rows, "val")],
              xgb_model=checkpoint_of(trial), callbacks=[ReportRounds(trial, 10)])

https://xgboost.readthedocs.io/en/stable/python/callbacks.html
"""

from __future__ import annotations

from typing import Any

from xgboost.callback import TrainingCallback

from sweeps.kinds.function import Trial

FILE = "model.ubj"


def checkpoint_of(trial: Trial) -> str | None:
    """The saved booster to go on from; None at the start."""
    return None if trial.checkpoint is None else str(trial.checkpoint / FILE)


def rounds_left(trial: Trial, rounds: int) -> int:
    """Rounds to train, of a trial that reports each so many."""
    return (trial.max_epochs - trial.epochs_done) * rounds


class ReportRounds(TrainingCallback):
    """Reports the newest metrics of each so many rounds, as `val-logloss`, and saves the booster where a
    checkpoint is due.

    Args:
        trial: to report to.
        rounds: of a report.
    """

    def __init__(self, trial: Trial, rounds: int) -> None:
        super().__init__()
        self._trial, self._rounds = trial, rounds

    def after_iteration(self, model: Any, epoch: int, evals_log: TrainingCallback.EvalsLog) -> bool:
        if (epoch + 1) % self._rounds == 0:
            metrics = {
                f"{data}-{name}": values[-1]
                for data, found in evals_log.items()
                for name, values in found.items()
            }
            self._trial.report(metrics, save=lambda folder: model.save_model(folder / FILE))
        return False
