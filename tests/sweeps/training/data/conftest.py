"""Prepared data of numbered rows, and projects whose raw data is clips."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeps.ray_start import ray_connection
from tests.conftest import ROOT
from tests.support.clips import Clips
from tests.sweeps.training.data.numbered import data_set


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 + 1 + 40 rows in groups of 5."""
    folder = tmp_path_factory.mktemp("prepared")
    data_set(folder, 23, 1, 40)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the projects of this module lie; a Ray whose processes know them."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(home)
        patched.setenv("PYTHONPATH", f"{home}{os.pathsep}{ROOT}")
        settings: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
        ray.init(address="local", num_cpus=2, logging_level="ERROR", **settings)
        yield home
        ray_connection.shut_down(ray)


@pytest.fixture
def clips(home: Path, monkeypatch: pytest.MonkeyPatch) -> Clips:
    """A project of its own, with files of 20 rows to train on, to validate and to test."""
    clips = Clips(home, f"clips_{len(list(home.iterdir()))}")
    for number in range(6):
        clips.add(f"c{number}")
    clips.add("v0", split="val")
    clips.add("t0", split="test")
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(clips.raw))
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(clips.prepared))
    return clips
