"""Optuna alone: one of several processes over a journal, successive halving, Lightning's lean Trainer.

`python -m benchmarks._optuna FOLDER WORKER`. The params of a trial come from the job, by its number.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lightning.pytorch as pl
import optuna
from optuna.pruners import SuccessiveHalvingPruner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from benchmarks import _lean
from benchmarks._job import Job


class Report(pl.Callback):
    """Tells the trial of each epoch, and stops where the pruner says so."""

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial = trial
        self.accuracy = self.best = 0.0
        self.epochs = 0

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.accuracy, self.epochs = float(trainer.callback_metrics["val_acc"]), trainer.current_epoch + 1
        self.best = max(self.best, self.accuracy)
        self.trial.report(self.accuracy, self.epochs)
        if self.epochs < (trainer.max_epochs or 0) and self.trial.should_prune():
            trainer.should_stop = True


def main(folder: str, worker: int) -> None:
    job = Job.read(folder)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name="sweep",
        storage=JournalStorage(JournalFileBackend(str(Path(folder) / "optuna.journal"))),
        direction="maximize",
        pruner=SuccessiveHalvingPruner(min_resource=job.grace_epochs, reduction_factor=job.reduction_factor),
        load_if_exists=True,
    )
    trained, best = {}, 0.0
    while (trial := study.ask()).number < len(job.trials):
        report = Report(trial)
        _lean.fit(job, job.trials[trial.number], job.max_epochs, report)
        best = max(best, report.best)
        is_whole = report.epochs == job.max_epochs
        if is_whole:
            study.tell(trial, report.accuracy)
        else:
            study.tell(trial, state=TrialState.PRUNED)
        trained[trial.number] = report.epochs
    study.tell(trial, state=TrialState.FAIL)
    job.tell(trained, worker, best)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
