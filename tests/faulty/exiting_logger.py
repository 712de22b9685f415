"""A logger whose library ends the process where it fails."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeps.loggers import Logger
from sweeps.record.trials import TrialRow

NEEDS = ("sys", "python")
"""It is always there."""


class Exits(Logger):
    """Exits in each update."""

    def write(self, trial: TrialRow, is_on: bool) -> None:
        sys.exit(3)


def build(folder: Path, about: Mapping[str, Any]) -> Logger:
    return Exits()
