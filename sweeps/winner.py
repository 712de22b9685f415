"""The best trial: its weights and params set aside, and, once, its score on the test rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import ray
import yaml
from ray.exceptions import RayError

from sweeps import cluster
from sweeps.engine import End, job_of
from sweeps.plan import Plan
from sweeps.record import Record
from sweeps.trial import params_of, test_winner

FOLDER = "best"


def crown(plan: Plan, record: Record, offered: cluster.Cluster, end: End) -> dict[str, float]:
    """Write `best/`; score the winner, and only the winner, on the test rows.

    Returns:
        The test metrics; {} when the sweep was interrupted (its winner is not known yet), when
        there is no winner, or when its model has no `test_step`.
    """
    best = record.best()
    if best is None:
        return {}
    if best.checkpoint is None or not (Path(best.checkpoint) / "weights.pt").is_file():
        print(f"The weights of trial {best.number} could not be saved: no best/, no test.", flush=True)
        return {}
    _set_aside(plan, record)
    if end.outcome in ("interrupted", "error"):
        return {}
    print(f"Scoring trial {best.number} on the test rows ...", flush=True)
    task = ray.remote(test_winner).options(
        num_cpus=plan.config.cpus_per_trial,
        num_gpus=cluster.gpus_per_trial(plan.config, offered.pcs),
    )
    try:
        scores: dict[str, float] = ray.get(task.remote(job_of(plan), dict(best.params), best.checkpoint))
    except RayError as error:
        print(f"The winner could not be tested: {str(error).strip().splitlines()[-1]}", flush=True)
        return {}
    record.note("test", {"trial": best.number, **scores})
    return scores


def _set_aside(plan: Plan, record: Record) -> None:
    """`best/weights.pt` and `best/params.yaml`, written beside and renamed."""
    best = record.best()
    assert best is not None
    assert best.checkpoint is not None
    score, epoch = best.best_score(record.mode), best.best_epoch(record.mode)
    about = {
        "trainable": plan.config.trainable,
        "params": params_of(job_of(plan), dict(best.params)),
    }
    partial = plan.folder / f".{FOLDER}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    shutil.copy(Path(best.checkpoint) / "weights.pt", partial / "weights.pt")
    (partial / "params.yaml").write_text(
        f"# trial {best.number}: {plan.config.metric} {score} in epoch {epoch}\n"
        + yaml.safe_dump(about, sort_keys=False)
    )
    shutil.rmtree(plan.folder / FOLDER, ignore_errors=True)
    partial.rename(plan.folder / FOLDER)
