"""TensorBoard, `tensorboard/trial_0003/`: metrics by epoch, and hyperparameters for its HParams tab.

Each byte of a file follows from the record: a file that a killed driver left is a prefix of the whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.common.objective import Objective
from sweeps.loggers import RunWriter
from sweeps.record import sweep_info
from sweeps.record.trials import TrialRow

FOLDER = "tensorboard"


class Logger(RunWriter):
    """Writes an event file for each trial."""

    NEEDS: ClassVar[tuple[str, str]] = ("tensorboardX", "tensorboardX")

    def __init__(self, folder: Path, objective: Objective) -> None:
        self._folder, self._objective = folder, objective
        self._epochs: dict[str, int] = {}
        """Name of a trial to the number of epochs in its file."""

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        return cls(folder / FOLDER, sweep_info.parse(about).objective)

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Append what the file lacks."""
        from sweeps.loggers import _event_files  # with PyTorch

        path = self._folder / trial.name / f"events.out.tfevents.{int(trial.start)}.sweep"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = self._epochs.pop(trial.name, None)  # read again if writing fails
        new = _event_files.encode(trial, self._objective, known)
        if known is None and path.exists():
            there = path.read_bytes()
            if new.startswith(there):
                new = new[len(there) :]
            else:
                path.unlink()
        with path.open("ab") as file:
            file.write(new)
        if trial.status == "unfinished":
            self._epochs[trial.name] = len(trial.epochs)
