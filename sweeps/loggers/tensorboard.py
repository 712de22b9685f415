"""TensorBoard, `tensorboard/trial_0003/`: metrics by epoch, and hyperparameters for its HParams tab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeps.loggers import Logger
from sweeps.record import sweep_info

NEEDS = ("tensorboardX", "tensorboardX")
FOLDER = "tensorboard"


def build(folder: Path, about: Mapping[str, Any]) -> Logger:
    """The logger."""
    from sweeps.loggers._event_files import EventFiles  # with PyTorch, in the logger's thread

    return EventFiles(folder / FOLDER, sweep_info.parse(about).objective)
