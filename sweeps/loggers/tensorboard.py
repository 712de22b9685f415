"""TensorBoard, `tensorboard/trial_0003/`: metrics by epoch, and hyperparameters for its HParams tab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sweeps.loggers import RunWriter
from sweeps.record import sweep_info
from sweeps.record.trials import TrialRow

if TYPE_CHECKING:
    from sweeps.loggers._event_files import EventFiles

FOLDER = "tensorboard"


class Logger(RunWriter):
    """Writes event files."""

    NEEDS: ClassVar[tuple[str, str]] = ("tensorboardX", "tensorboardX")

    def __init__(self, files: EventFiles) -> None:
        self._files = files

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        from sweeps.loggers._event_files import EventFiles  # with PyTorch, in the logger's thread

        return cls(EventFiles(folder / FOLDER, sweep_info.parse(about).objective))

    def write(self, trial: TrialRow, is_on: bool) -> None:
        self._files.write(trial)
