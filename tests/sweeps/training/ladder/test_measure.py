"""The speed of a set-up: real runs, and that none of their workers stays."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from sweeps.training.distributed import launch
from sweeps.training.ladder import ladder, rungs
from sweeps.training.ladder.rungs import Setup
from tests.conftest import ROOT


@pytest.mark.slow
def test_a_speed_is_measured_by_a_run_of_its_own() -> None:
    found, reason = rungs.measure("digits_mlp", {"hidden": 16}, Setup(batch_rows=100), 0.3)
    assert found is not None, reason
    assert found.samples_s > 0
    assert (found.batch_rows, found.epoch_rows) == (100, 1200)
    assert 0 <= found.cores_busy_pct <= 100
    assert found.gpu_util_pct is None or torch.cuda.is_available()


@pytest.mark.parametrize("first_s", [0.002, 1.2])
def test_the_clock_is_looked_at_seldom_and_the_time_is_filled(first_s: float) -> None:
    """A first step that compiles does not end it."""
    steps, looks, to_go, time_s = 0, 0, 1, 0.0
    while to_go:
        steps, looks = steps + to_go, looks + 1
        time_s = first_s + 0.002 * (steps - 1)
        to_go = rungs.steps_to_go(steps, time_s, 4.0)
    assert rungs.TIMED_SHARE * 4.0 <= time_s <= 4.2
    assert looks <= steps.bit_length() + 3


@pytest.mark.parametrize(("batches", "epoch_rows"), [(7, 28), (math.inf, None)])
def test_data_that_does_not_say_how_long_it_is_has_a_speed(batches: float, epoch_rows: int | None) -> None:
    strategy = SimpleNamespace(broadcast=lambda value: value)
    trainer: Any = SimpleNamespace(num_training_batches=batches, world_size=1, strategy=strategy)
    timed = rungs.Timed(0.01, is_compiled=True)
    timed.on_train_start(trainer)
    timed.on_train_epoch_start()
    for number in range(1000):
        timed.on_train_batch_start()
        time.sleep(0.001)
        timed.on_train_batch_end(trainer, None, None, torch.zeros(4, 1), number)
        if timed.speed is not None:
            break
    assert timed.speed is not None
    assert (timed.speed.batch_rows, timed.speed.epoch_rows) == (4, epoch_rows)
    assert trainer.should_stop
    row = ladder.cells(ladder.Result("as given", timed.speed, 1.0, "", is_kept=True))
    assert (row[2] == "-") is (epoch_rows is None)


@pytest.mark.long
def test_the_speed_of_two_workers_is_theirs_together() -> None:
    setup = Setup(batch_rows=100).with_fit(strategy="ddp", devices=2)
    found, reason = rungs.measure("digits_mlp", {}, setup, 0.3)
    assert found is not None, reason
    assert (found.batch_rows, found.epoch_rows) == (100, 1200)


def test_a_rung_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "TIMEOUT_S", 0.1)
    assert rungs.measure("digits_mlp", {}, Setup(), 0.3) == (None, "timed out")


def test_the_reason_is_the_line_that_names_the_error(tmp_path: Path) -> None:
    error = FileNotFoundError("no weights here. One of:\n  download them\n  name a folder")
    with pytest.raises(FileNotFoundError), launch.report_failure(tmp_path):
        raise error
    failure = launch.failure_of(launch.Ended(1, "", timed_out=False), tmp_path)
    assert failure.endswith("name a folder")
    assert rungs.in_a_line(failure) == "FileNotFoundError: no weights here. One of: download them"


@pytest.mark.parametrize("failure", ["out of memory", "Warning: old\nFatal error", "Fatal error"])
def test_the_reason_of_what_is_no_traceback_is_its_last_line(failure: str) -> None:
    assert rungs.in_a_line(failure) == failure.splitlines()[-1]


ONE_RUNS_OUT = """
import os
import torch
from trainables import digits_mlp
from trainables.digits_mlp import METRIC, MODE, Params, build_data

def build_model(params):
    model = digits_mlp.build_model(params)

    def run_out(*_):
        if os.environ.get("LOCAL_RANK", "0") == "WORKER":
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.net.register_forward_pre_hook(run_out)
    return model
"""


@pytest.mark.long
@pytest.mark.parametrize("worker", ["0", "1"])
def test_a_worker_out_of_memory_leaves_no_other_one_waiting(
    worker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"runs_out_{worker}.py").write_text(ONE_RUNS_OUT.replace("WORKER", worker))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    setup = Setup(batch_rows=100).with_fit(strategy="ddp", devices=2)
    assert rungs.measure(f"runs_out_{worker}", {}, setup, 0.3) == (None, "out of memory")
    for _ in range(600):  # killed, and on their way
        if not (left := running_in(tmp_path)):
            break
        time.sleep(0.05)
    assert left == []


def running_in(folder: Path) -> list[int]:
    """Processes there, this one aside."""
    there = [process.pid for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]
    return [process for process in there if process != os.getpid()]
