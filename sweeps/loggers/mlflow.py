"""MLflow: an experiment for the sweep, a run for each trial, in `mlflow.db` or at MLFLOW_TRACKING_URI.

mlflow ui --backend-store-uri sqlite:///results/NAME/mlflow.db
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.loggers import RunWriter
from sweeps.record.trials import BAD, TrialRow

STATUSES = {
    "finished": "FINISHED",
    "pruned": "KILLED",
    "stopped": "KILLED",
    **dict.fromkeys(BAD, "FAILED"),
}
"""Of trials that have ended; a trial that waits for a resume is SCHEDULED."""
ATTEMPT = "attempt"
"""Tag of the run of a further attempt: its name."""
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # its errors are raised, too
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # s
}
"""What the user may set otherwise."""


class Logger(RunWriter):
    """The runs of a sweep."""

    NEEDS: ClassVar[tuple[str, str]] = ("mlflow", "mlflow")

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        """It reads the runs of this sweep that the server has."""
        for variable, value in DEFAULTS.items():
            os.environ.setdefault(variable, value)
        from mlflow import MlflowClient, entities

        uri = os.environ.get("MLFLOW_TRACKING_URI")
        client = MlflowClient(tracking_uri=uri or f"sqlite:///{folder / 'mlflow.db'}")
        name = str(about["sweep"])
        if (experiment := client.get_experiment_by_name(name)) is not None:
            experiment_id = experiment.experiment_id
        else:
            artifacts = None if uri else (folder / "mlflow").as_uri()
            experiment_id = client.create_experiment(name, artifact_location=artifacts)
        return cls(client, entities, experiment_id, about)

    def __init__(self, client: Any, entities: Any, experiment_id: str, about: Mapping[str, Any]) -> None:
        self._client, self._entities, self._experiment_id = client, entities, experiment_id
        self._metric = str(about["metric"])
        # A server may have another sweep of this name.
        self._sweep = f"{about['sweep']} of {about['started']:.3f}"
        self._runs = self._found()
        self._epochs: dict[str, int] = {}
        """Name of a trial to the last epoch in its run."""

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Write what a run lacks; the end of the trial comes last."""
        run_id, status = self._runs.get(trial.name) or self._begin(trial)
        if status in STATUSES.values():
            return
        if trial.name not in self._epochs:
            self._write_params(run_id, trial)
            history = self._client.get_metric_history(run_id, _name(self._metric))
            self._epochs[trial.name] = max((metric.step for metric in history), default=0)
        self._write_metrics(run_id, trial)
        if trial.status != "unfinished":
            for name, text in (("status", trial.status), ("reason", trial.reason), ("log", trial.log)):
                if text:
                    self._client.set_tag(run_id, name, text)
            for name, value in trial.place.items():
                self._client.set_tag(run_id, name, str(value))
            end_time = None if trial.end is None else _ms(trial.end)
            self._client.set_terminated(run_id, STATUSES[trial.status], end_time)
            self._runs[trial.name] = run_id, STATUSES[trial.status]
        elif status != (now := "RUNNING" if is_on else "SCHEDULED"):
            self._client.update_run(run_id, status=now)
            self._runs[trial.name] = run_id, now

    def _found(self) -> dict[str, tuple[str, str]]:
        """Name of each trial to its run and status, as the server has them."""
        found, token = {}, None
        while True:
            page = self._client.search_runs(
                [self._experiment_id], f"tags.sweep = '{self._sweep}'", max_results=1000, page_token=token
            )
            for run in page:
                tags = run.data.tags
                name = tags.get(ATTEMPT, f"trial_{int(tags['trial']):04d}")
                found[name] = run.info.run_id, run.info.status
            if not (token := page.token):
                return found

    def _begin(self, trial: TrialRow) -> tuple[str, str]:
        tags = {"sweep": self._sweep, "trial": str(trial.number), "trainable": trial.trainable}
        tags |= {ATTEMPT: trial.name} if trial.attempt else {}
        run = self._client.create_run(self._experiment_id, _ms(trial.start), tags, run_name=trial.name)
        self._runs[trial.name] = run.info.run_id, "RUNNING"
        return self._runs[trial.name]

    def _write_params(self, run_id: str, trial: TrialRow) -> None:
        hyperparameters = {**trial.fixed, **trial.params, "seed": trial.seed}
        params = [self._entities.Param(_name(name), str(value)) for name, value in hyperparameters.items()]
        self._client.log_batch(run_id, params=params)

    def _write_metrics(self, run_id: str, trial: TrialRow) -> None:
        for epoch, row in sorted(trial.epochs.items()):
            if epoch > self._epochs[trial.name]:
                metrics = [
                    self._entities.Metric(_name(name), value, _ms(row.time), epoch)
                    for name, value in row.metrics.items()
                ]
                self._client.log_batch(run_id, metrics=metrics)
                self._epochs[trial.name] = epoch


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def _name(name: str) -> str:
    """A name in the characters that MLflow allows."""
    return re.sub(r"[^\w./ :-]", "_", name)
