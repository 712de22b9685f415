"""What lies in `best/` beside the weights: how they were trained, and what came of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from sweeps.common import params_file
from sweeps.common.formatting import place
from sweeps.config.sweep_folder import FOLDER, PARAMS_FILE
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.training.config import FitConfig


def again(plan: Plan, best: TrialRow) -> tuple[str, ...]:
    """What `sweeps fit` is typed with to train it again."""
    return best.trainable, "--params", place(plan.folder / FOLDER / PARAMS_FILE)


def params_text(plan: Plan, record: Record, run: TrialRow, config: FitConfig) -> str:
    """The text of params.yaml.

    Args:
        plan: of the sweep.
        record: how its trials went.
        run: whose weights these are: the winner, or a rerun of it.
        config: how it was trained.
    """
    score, epoch = run.best_score(record.objective), run.best_epoch(record.objective)
    metric = record.objective.metric
    head = [
        f"{_called(run)} of sweep {plan.config.name}: {metric} {score} in epoch {epoch}",
        f"Train it again: sweeps fit {shlex.join(again(plan, run))}",
    ]
    params = {**run.fixed, **run.params}
    found = {"score": score, "epoch": epoch, "trial": _of_search(run), "run": run.number}
    return params_file.write(run.trainable, params, config.settings(), found, head)


def metrics_text(record: Record, run: TrialRow, test_scores: Mapping[str, float]) -> str:
    """The text of metrics.json: all metrics of the best epoch, the test's, and the spread over seeds."""
    epoch = run.best_epoch(record.objective)
    content: dict[str, Any] = {
        "trial": _of_search(run),
        "run": run.number,
        "seed": run.seed,
        "epoch": epoch,
        "metrics": {} if epoch is None else dict(run.epochs[epoch].metrics),
        "test": dict(test_scores),
    }
    for trial in record.confirmed()[:1]:
        content["confirmed"] = {
            "mean": trial.mean if trial.scores else None,
            "std": trial.std,
            "scores": list(trial.scores),
            "failures": trial.failures,
            "score_in_search": record.trials[trial.number].best_score(record.objective),
        }
    return json.dumps(content, indent=2) + "\n"


def _of_search(run: TrialRow) -> int:
    return run.number if run.confirms is None else run.confirms


def _called(run: TrialRow) -> str:
    if run.confirms is None:
        return f"trial {run.number}"
    return f"trial {run.confirms} with seed {run.seed} (trial {run.number})"
