"""Whole sweeps join a Ray that stays, as after `sweeps up`: one of its own costs each 5 s of CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import RAYS_FOLDER

OWN_RAY = {
    "test_conditional_spaces.py", "test_killed_by_the_kernel.py", "test_queue.py", "test_shared_ray.py",
    "test_sharing.py", "test_stopping.py", "test_storage.py", "test_sweep.py",
}  # fmt: skip
"""Tests of how Ray starts, is shared and ends."""


@pytest.fixture(scope="session")
def ray_that_stays() -> Iterator[Callable[[], str]]:
    """Start one in the present folder of Rays where none is there; its own folder."""
    started: dict[Path, dict[str, str]] = {}

    def start() -> str:
        folder = Path(os.environ[RAYS_FOLDER], "s")  # short, for its sockets
        if folder not in started:
            folder.mkdir()
            started[folder] = {**os.environ, RAYS_FOLDER: str(folder)}
            _sweeps("up", "--no-ray-dashboard", environment=started[folder]).check_returncode()
        return str(folder)

    yield start
    for environment in started.values():
        _sweeps("down", environment=environment)


@pytest.fixture(scope="module")
def environment(
    environment: dict[str, str], ray_that_stays: Callable[[], str], request: pytest.FixtureRequest
) -> dict[str, str]:
    """The environment of a command, with the folder of the Ray that it joins or starts."""
    has_own = request.path.name in OWN_RAY
    return environment if has_own else {**environment, RAYS_FOLDER: ray_that_stays()}


def _sweeps(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sweeps", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
