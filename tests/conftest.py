"""The command line as a user types it: a process of its own, in the project's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the toys of this module write that they were begun."""
    return tmp_path_factory.mktemp("attempts")


@pytest.fixture(scope="module")
def environment(attempts: Path) -> dict[str, str]:
    """The environment of a command."""
    return {**os.environ, "TOY_ATTEMPTS": str(attempts), "PYTHONWARNINGS": "", "COLUMNS": "120"}


@pytest.fixture(scope="module")
def sweep(environment: dict[str, str]) -> Command:
    """`sweep("--num-trials", "4")` runs `python -m sweeps.run --num-trials 4`."""

    def run(*arguments: str, timeout_s: int = 180) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sweeps.run", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s
        )

    return run
