"""Configurations one after another in this process, as one writes it first.

`python -m benchmarks._one_by_one FOLDER`. The job says which, and how many epochs of each are timed. A file
in the folder gets, of each trial, when it was begun, when each of its epochs began, and when the last one
ended, by the machine's monotonic clock.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import lightning.pytorch as pl

from benchmarks import _lean
from benchmarks._job import MARKS_FILE, Job


class Marks(pl.Callback):
    """When each epoch of a trial begins, and when its training ends."""

    def __init__(self) -> None:
        self.times = [time.monotonic()]

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.times.append(time.monotonic())

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.times.append(time.monotonic())


def main(folder: str) -> None:
    job = Job.read(folder)
    found = []
    for number, params in enumerate(job.trials):
        marks = Marks()
        _lean.fit(job, params, job.epochs[number], marks)
        found.append(marks.times)
    (Path(folder) / MARKS_FILE).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
