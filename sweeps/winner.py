"""The best trial: its weights and params set aside, and, once, its score on the test rows."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import ray
import yaml
from ray.exceptions import RayError

from sweeps import cluster
from sweeps.engine import job_of
from sweeps.journal import RecordLost
from sweeps.plan import Plan
from sweeps.record import Record
from sweeps.rows import TrialRow
from sweeps.stopping import End
from sweeps.trial import test_winner
from training import checkpoints, durable

FOLDER, PARAMS_FILE = "best", "params.yaml"


def crown(plan: Plan, record: Record, offered: cluster.Cluster, end: End) -> dict[str, float]:
    """Write `best/`; score the winner, and only the winner, on the test rows.

    Returns:
        The test metrics; {} when the sweep was interrupted (its winner is not known yet), when
        there is no winner, or when its model has no `test_step`.
    """
    best = record.best()
    if best is None or end.outcome in ("error", "lost"):
        return {}
    try:
        weights = _weights(plan, record, best)
    except OSError as error:
        end.stop("lost", f"{FOLDER}/ can't be written: {error.strerror or error}")
        return {}
    if weights is None:
        print(f"The weights of trial {best.number} are gone: no {FOLDER}/, no test.", flush=True)
        return {}
    known: dict[str, Any] = record.about.get("test", {})
    if known.get("trial") == best.number:  # scored before the sweep was resumed
        return {name: score for name, score in known.items() if name != "trial"}
    if end.outcome == "interrupted" or best.trainable in record.about.get("without_test", []):
        return {}
    scores = _test(plan, offered, best, weights)
    try:
        if scores:
            record.note("test", {"trial": best.number, **scores})
    except RecordLost as error:
        end.stop("lost", str(error))
    return scores


def is_lost(plan: Plan, record: Record) -> bool:
    """Whether `best/` is not there, and can be made."""
    best = record.best()
    if best is None or (plan.folder / FOLDER).is_dir():
        return False
    return bool(checkpoints.all_of(checkpoints.folder_of(plan.folder, best.number)))


def _weights(plan: Plan, record: Record, best: TrialRow) -> Path | None:
    """The folder `best/`, made from the winner's checkpoint; None when its weights are nowhere."""
    folder = plan.folder / FOLDER
    of_trial = checkpoints.folder_of(plan.folder, best.number)
    newest, _ = checkpoints.newest(of_trial, {**best.fixed, **best.params})
    if newest is not None and checkpoints.epoch_of(newest) >= (best.best_epoch(record.mode) or 0):
        _set_aside(plan, record, best, newest)
        return folder
    with contextlib.suppress(OSError, yaml.YAMLError, TypeError, KeyError):
        if yaml.safe_load((folder / PARAMS_FILE).read_text())["trial"] == best.number:
            return folder
    shutil.rmtree(folder, ignore_errors=True)  # of another trial, which is the best no more
    return None


def _test(plan: Plan, offered: cluster.Cluster, best: TrialRow, weights: Path) -> dict[str, float]:
    """In a process of its own: what a user's test does to it is not done to this one."""
    print(f"Scoring trial {best.number} on the test rows ...", flush=True)
    task = ray.remote(test_winner).options(
        num_cpus=plan.config.cpus_per_trial,
        num_gpus=cluster.gpus_per_trial(plan.config, offered.pcs),
    )
    try:
        scores: dict[str, float] = ray.get(task.remote(job_of(plan), best.point, str(weights)))
    except RayError as error:
        print(f"The winner could not be tested: {str(error).strip().splitlines()[-1]}", flush=True)
        return {}
    return scores


def _set_aside(plan: Plan, record: Record, best: TrialRow, checkpoint: Path) -> None:
    """`best/weights.pt` and `best/params.yaml`, written beside and renamed."""
    score, epoch = best.best_score(record.mode), best.best_epoch(record.mode)
    about = {
        "trial": best.number,
        "trainable": best.trainable,
        "params": {**best.fixed, **best.params},
    }
    partial = plan.folder / f".{FOLDER}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    shutil.copy(checkpoint / "weights.pt", partial / "weights.pt")
    (partial / PARAMS_FILE).write_text(
        f"# trial {best.number}: {plan.config.metric} {score} in epoch {epoch}\n"
        + yaml.safe_dump(about, sort_keys=False)
    )
    for path in (*partial.iterdir(), partial):
        durable.sync(path)
    shutil.rmtree(plan.folder / FOLDER, ignore_errors=True)
    partial.rename(plan.folder / FOLDER)
