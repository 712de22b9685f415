"""A Ray on this PC that starts while a sweep is planned: the model of these sweeps waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from sweeps.cluster import local_ray
from sweeps.cluster.local_ray import LocalRay
from sweeps.common import ray_connection
from sweeps.common.errors import RayNotStarted
from sweeps.config.sweep_config import SweepConfig
from tests.conftest import ROOT
from tests.support.lab import wait_until

MODEL = """
import time
import ray
from tests.faulty.toy import METRIC, MODE, Params, {imported}

print("importing", flush=True)
until = time.monotonic() + 60
while not ray.is_initialized() and time.monotonic() < until:
    time.sleep(0.05)
print("Ray is there:", ray.is_initialized(), flush=True)
time.sleep({seconds})
"""
BOTH = "build_data, build_model"
PATIENCE_S = 60.0


def begin(folder: Path, imported: str = BOTH, seconds: float = 0.0) -> subprocess.Popen[str]:
    (folder / "late.py").write_text(MODEL.format(imported=imported, seconds=seconds))
    flags = {
        "trainable": "late", "search-space": "tests.faulty.slopes", "searcher": "random", "num-trials": "1",
        "max-epochs": "1", "name": "s", "min-free-gb": "0",
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", *words, "--no-ray-dashboard", "--no-preflight"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TOY_ATTEMPTS": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def below(program: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(program.pid).children(recursive=True)


def all_end(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, PATIENCE_S)[1]


def test_ray_starts_while_a_long_plan_is_made(tmp_path: Path) -> None:
    program = begin(tmp_path)
    said, _ = program.communicate(timeout=PATIENCE_S * 2)
    assert program.returncode == 0, said
    assert (
        said.index("Ray is there: True") < said.index("Starting Ray ...") < said.index("Best       trial 0")
    )


def test_a_mistake_that_a_long_plan_shows_ends_the_ray_that_has_started(tmp_path: Path) -> None:
    program = begin(tmp_path, imported="build_model", seconds=1.0)
    assert program.stdout is not None
    while "Ray is there: True" not in program.stdout.readline():
        assert program.poll() is None
    started = below(program)
    assert any("gcs_server" in each.name() for each in started)
    said, _ = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 2
    assert "build_data" in said
    assert "Traceback" not in said
    assert all_end(started)
    assert not (tmp_path / "results" / "s").exists()


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_signal_while_both_go_on_ends_all(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    program = begin(tmp_path, seconds=PATIENCE_S)
    wait_until(lambda: any("gcs_server" in each.name() for each in below(program)), "Ray starts")
    started = below(program)
    program.send_signal(sent)
    said, _ = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == status, said
    assert "Traceback" not in said
    assert all_end(started)


@pytest.mark.parametrize(
    "flags", [{"dry_run": True}, {"address": "10.0.0.1:6379"}, {"resume": Path("results/s")}]
)
def test_nothing_starts_early_that_may_not_be_wanted(
    flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ray, "LONG_PLAN_S", 0.0)
    monkeypatch.setattr(ray_connection, "init", lambda *_, **__: pytest.fail("it was started"))
    with LocalRay(SweepConfig.of(**flags), None) as local:
        local._thread.join(0.3)
        assert local._thread.is_alive()
    assert not local._thread.is_alive()
    assert not local._context.done()


def test_that_it_does_not_start_is_told_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ray, "LONG_PLAN_S", 0.0)
    tried = threading.Event()

    def init(*_: Any, **__: Any) -> None:
        tried.set()
        raise RayNotStarted("Ray does not start on this PC")

    monkeypatch.setattr(ray_connection, "init", init)
    with LocalRay(SweepConfig(), None) as local:
        assert tried.wait(PATIENCE_S)
        with pytest.raises(RayNotStarted, match="Ray does not start on this PC"):
            local.dashboard_url()
    assert not ray.is_initialized()


def test_a_program_that_uses_ray_starts_none_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ray, "LONG_PLAN_S", 0.0)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray_connection, "init", lambda *_, **__: pytest.fail("it was started"))
    with LocalRay(SweepConfig(), None) as local:
        local._thread.join(0.3)
        assert local._thread.is_alive()
