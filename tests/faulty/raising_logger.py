"""A logger with a defect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.loggers import RunWriter
from sweeps.record.trials import TrialRow


class Logger(RunWriter):
    """Raises an error in each update."""

    NEEDS: ClassVar[tuple[str, str]] = ("sys", "python")
    """It is always there."""

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> RunWriter:
        return cls()

    def write(self, trial: TrialRow, is_on: bool) -> None:
        raise ValueError("of a library")
