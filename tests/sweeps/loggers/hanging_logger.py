"""A logger whose package hangs, and prints, the first time that it is to write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeps.loggers import RunWriter
from sweeps.record.trials import TrialRow

HANGS, WRITTEN = "hangs", "written"
"""Files in the folder of the sweep: once it hangs, and with the number of the trial that was written last."""


class Logger(RunWriter):
    """Its second process works."""

    NEEDS = ("json", "json")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        return cls(folder)

    def write(self, trial: TrialRow, is_on: bool) -> None:
        hangs = self._folder / HANGS
        if not hangs.exists():
            hangs.touch()
            while True:
                print(flush=True)  # no sign of life
                time.sleep(0.05)
        (self._folder / WRITTEN).write_text(str(trial.number))
