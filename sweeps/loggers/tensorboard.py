"""TensorBoard, `tensorboard/trial_0003/`: metrics by epoch, and hyperparameters for its HParams tab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.loggers import RunWriter
from sweeps.record import sweep_info

FOLDER = "tensorboard"


class Logger(RunWriter):
    """Writes event files."""

    NEEDS: ClassVar[tuple[str, str]] = ("tensorboardX", "tensorboardX")

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> RunWriter:
        from sweeps.loggers._event_files import EventFiles  # with PyTorch, in the logger's thread

        return EventFiles(folder / FOLDER, sweep_info.parse(about).objective)
