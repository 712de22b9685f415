"""The best trial: its weights and params set aside, and, once, its score on the test rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import ray
import yaml

from sweeps import cluster
from sweeps.engine import job_of
from sweeps.plan import Plan
from sweeps.record import Record
from sweeps.trial import params_of, test_winner

FOLDER = "best"


def crown(plan: Plan, record: Record, offered: cluster.Cluster) -> dict[str, float]:
    """Write `best/` and score the winner, and only the winner, on the test rows.

    Returns:
        The test metrics; {} when there is no winner, or its model has no `test_step`.
    """
    best = record.best()
    if best is None or best.checkpoint is None:
        return {}
    job = job_of(plan)
    params = params_of(job, dict(best.params))
    partial = plan.folder / f".{FOLDER}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    shutil.copy(Path(best.checkpoint) / "weights.pt", partial / "weights.pt")
    (partial / "params.yaml").write_text(
        f"# trial {best.number}: {plan.config.metric} {best.best_score(record.mode)}"
        f" in epoch {best.best_epoch(record.mode)}\n"
        f"trainable: {plan.config.trainable}\n" + yaml.safe_dump({"params": params}, sort_keys=False)
    )
    shutil.rmtree(plan.folder / FOLDER, ignore_errors=True)
    partial.rename(plan.folder / FOLDER)
    print(f"Scoring trial {best.number} on the test rows ...", flush=True)
    task = ray.remote(test_winner).options(
        num_cpus=plan.config.cpus_per_trial,
        num_gpus=cluster.gpus_per_trial(plan.config, offered.num_gpus),
    )
    scores: dict[str, float] = ray.get(task.remote(job, dict(best.params), best.checkpoint))
    record.note("test", {"trial": best.number, **scores})
    return scores
