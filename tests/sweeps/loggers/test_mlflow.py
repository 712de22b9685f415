"""MLflow: a run for each trial, also in a sweep that goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.dashboards import LR, sweep
from tests.sweeps.loggers.logged import log


@pytest.mark.slow
def test_mlflow_has_a_run_a_trial(tmp_path: Path, mlflow: Callable[[Path], dict[int, Any]]) -> None:
    record = sweep(tmp_path)
    log("mlflow", record)
    runs = mlflow(tmp_path)
    states = [runs[number].info.status for number in range(5)]
    assert states == ["FINISHED", "KILLED", "FAILED", "FAILED", "SCHEDULED"]
    assert runs[0].history == [(1, 0.1), (2, 0.3), (3, 0.2)]
    assert runs[1].data.params == {"lr": "0.1", "seed": "0"}
    assert runs[2].data.tags["reason"] == "RuntimeError: the toy broke"
    assert runs[3].data.tags["status"] == "diverged"
    assert math.isnan(runs[3].history[1][1])


def test_mlflow_goes_on_in_the_same_runs(tmp_path: Path, mlflow: Callable[[Path], dict[int, Any]]) -> None:
    record = sweep(tmp_path)
    log("mlflow", record)
    before = mlflow(tmp_path)
    record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)
    log("mlflow", record, is_on=True)
    assert mlflow(tmp_path)[4].info.status == "RUNNING"
    record.report(4, 3, 0.8, {"acc": 0.8}, 1.0)
    record.end(4, "finished")
    log("mlflow", record)
    after = mlflow(tmp_path)
    assert [run.info.run_id for run in after.values()] == [run.info.run_id for run in before.values()]
    assert after[4].history == [(1, 0.6), (2, 0.7), (3, 0.8)]
    assert after[4].info.status == "FINISHED"
    assert after[0].history == before[0].history


@pytest.mark.long
def test_a_name_that_mlflow_does_not_take_is_changed(
    tmp_path: Path, mlflow: Callable[[Path], dict[int, Any]]
) -> None:
    record = Record.create(tmp_path, "s", "max", {"sweep": "s", "metric": "acc"})
    propose(record, {"lr": 0.1}, LR)
    record.report(0, 1, 0.5, {"acc": 0.5, "top-5 (%)": 1.0}, 1.0)
    log("mlflow", record)
    assert mlflow(tmp_path)[0].data.metrics == {"acc": 0.5, "top-5 ___": 1.0}
