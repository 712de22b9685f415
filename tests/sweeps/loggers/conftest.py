"""A PC on which nobody has set up a logger, and the runs of MLflow."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_without


@pytest.fixture(autouse=True)
def nothing_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server and no account."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def mlflow() -> Callable[[Path], dict[int, Any]]:
    """The runs of a sweep's folder, by trial, as MLflow has them."""
    skip_without("mlflow")

    def runs(folder: Path) -> dict[int, Any]:
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
        (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
        assert experiment.name == "s"
        found = client.search_runs([experiment.experiment_id])
        assert len({run.data.tags["trial"] for run in found}) == len(found), "a run is there twice"
        for run in found:
            history = client.get_metric_history(run.info.run_id, "acc")
            run.history = [(metric.step, metric.value) for metric in history]
        return {int(run.data.tags["trial"]): run for run in found}

    return runs
