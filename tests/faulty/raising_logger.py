"""A logger with a defect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeps.loggers import Logger
from sweeps.record.trials import TrialRow

NEEDS = ("sys", "python")
"""It is always there."""


class Raises(Logger):
    """Raises an error in each update."""

    def write(self, trial: TrialRow, is_on: bool) -> None:
        raise ValueError("of a library")


def build(folder: Path, about: Mapping[str, Any]) -> Logger:
    return Raises()
