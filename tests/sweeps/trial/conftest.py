"""The PC of the first worker, whose folder no other one sees."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from sweeps.cluster import broadcast
from tests.conftest import ROOT
from tests.sweeps.trial.first_pc import FirstPC


@pytest.fixture
def first_pc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirstPC]:
    (root := tmp_path / "first_pc").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(root)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    monkeypatch.chdir(tmp_path)
    yield FirstPC(broadcast.here(), root)
    ray.shutdown()
