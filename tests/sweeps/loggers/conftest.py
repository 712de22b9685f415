"""A server of MLflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_without_mlflow


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[int, Any]]:
    """The runs of a sweep's folder, by trial, as MLflow has them."""
    skip_without_mlflow()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

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
