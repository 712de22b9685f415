"""LightGBM: every so many rounds are a report.

lightgbm.train(settings, rows, rounds_left(trial, 10), valid_sets=[validation_rows], valid_names=["val"],
               init_model=checkpoint_of(trial), callbacks=[ReportRounds(trial, 10)])

https://lightgbm.readthedocs.io/en/stable/pythonapi/lightgbm.train.html
"""

from __future__ import annotations

from pathlib import Path

from lightgbm.callback import CallbackEnv

from sweeps.kinds.function import Trial

FILE = "model.txt"


def checkpoint_of(trial: Trial) -> Path | None:
    """The saved booster to go on from; None at the start."""
    return None if trial.checkpoint is None else trial.checkpoint / FILE


def rounds_left(trial: Trial, rounds: int) -> int:
    """Rounds to train, of a trial that reports each so many."""
    return (trial.max_epochs - trial.epochs_done) * rounds


class ReportRounds:
    """Reports the metrics of each so many rounds, as `val-binary_logloss`, and saves the booster where a
    checkpoint is due.

    Args:
        trial: to report to.
        rounds: of a report.
    """

    order, before_iteration = 25, False
    """Behind LightGBM's own record of the metrics, and before its early stopping."""

    def __init__(self, trial: Trial, rounds: int) -> None:
        self._trial, self._rounds = trial, rounds

    def __call__(self, env: CallbackEnv) -> None:
        if (env.iteration + 1) % self._rounds == 0:
            metrics = {f"{each[0]}-{each[1]}": each[2] for each in env.evaluation_result_list or ()}
            self._trial.report(metrics, save=lambda folder: env.model.save_model(folder / FILE))
