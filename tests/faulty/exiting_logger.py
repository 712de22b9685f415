"""A logger whose library ends the process where it fails."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.loggers import RunWriter
from sweeps.record.trials import TrialRow


class Logger(RunWriter):
    """Exits in each update."""

    NEEDS: ClassVar[tuple[str, str]] = ("sys", "python")
    """It is always there."""

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> RunWriter:
        return cls()

    def write(self, trial: TrialRow, is_on: bool) -> None:
        sys.exit(3)
