"""The page of all sweeps in a process of its own, beside a sweep (`--dashboard`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from sweeps.common.imports import module_command

LOOK_EVERY_S = 0.05
MOST_BYTES = 2**12
"""Of what it has printed that are read."""


class PageProcess:
    """It starts where no page shows these sweeps yet. It outlives the sweep, since others may be on it."""

    def __init__(self, results: Path) -> None:
        # No pipe: the page prints on, and goes on, when nobody reads it any more.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed in describe()
        self._process = subprocess.Popen(
            module_command("sweeps", "dashboard", str(results), "--until-unused", "--no-browser"),
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the sweep
        )

    def describe(self) -> str:
        """Where it is, once it is there, or why it is not."""
        has_ended = False
        while not (said := self._said()).endswith("\n") and not has_ended:
            has_ended = self._process.poll() is not None  # what it has printed last is read after that
            time.sleep(LOOK_EVERY_S)
        self._printed.close()
        first = said.strip()
        return f"dashboard  {first if first.startswith('http') else f'none: {first}'}"

    def _said(self) -> str:
        """Its first line, as far as it is printed."""
        # Read without a move: the page writes where this file is.
        printed = os.pread(self._printed.fileno(), MOST_BYTES, 0).decode(errors="replace")
        return next(iter(printed.splitlines(keepends=True)), "")
