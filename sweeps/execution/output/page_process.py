"""The page of all sweeps in a process of its own, beside a sweep (`--dashboard`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


class PageProcess:
    """It starts where no page shows these sweeps yet. It outlives the sweep, since others may be on it.

    Args:
        results: the folder of the sweeps that it shows.
    """

    def __init__(self, results: Path) -> None:
        words = ("-m", "sweeps", "dashboard", str(results), "--until-unused", "--no-browser")
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for the sweep
        )

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def describe(self) -> str:
        """Where it is, once it is there, or why it is not."""
        assert self._process.stdout is not None
        with self._process.stdout as said:
            first = said.readline().strip()
        return f"dashboard  {first if first.startswith('http') else f'none: {first}'}"
