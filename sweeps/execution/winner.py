"""The best trial: its weights and params set aside, and, once, its score on the test rows."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import ray
from ray.exceptions import RayError

from sweeps.analysis import best_model
from sweeps.cluster import placement
from sweeps.common import atomic_io
from sweeps.config import sweep_folder
from sweeps.config.sweep_folder import FOLDER
from sweeps.execution import best_folder
from sweeps.execution.driver import Driver, job_of
from sweeps.execution.stopping import End
from sweeps.plan import resume
from sweeps.plan.plan import Plan
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import TestScore
from sweeps.record.trials import TrialRow
from sweeps.training import checkpoint_store
from sweeps.trial.test_score import test_winner


def keep(driver: Driver) -> dict[str, float]:
    """Write `best/`; score the winner, and only the winner, on the test rows.

    Returns:
        The test metrics; {} when the winner is not known yet (the sweep was interrupted, or it is to be
        confirmed), when there is none, or when its model has no `test_step`.
    """
    plan, record, end = driver.plan, driver.record, driver.end
    run = best_model.run_of_winner(record, plan.storage)
    if run is None or end.outcome in ("error", "lost"):
        return {}
    try:
        weights = _weights(plan, record, run)
        if weights is None:
            print(f"The weights of trial {run.number} are gone: {FOLDER}/ is not written.", flush=True)
            return {}
        scores = _scores(driver, run, weights)
        atomic_io.write(weights / sweep_folder.METRICS_FILE, best_folder.metrics_text(record, run, scores))
    except OSError as error:
        end.stop("lost", f"{FOLDER}/ can't be written: {error.strerror or error}")
        return {}
    except KeyboardInterrupt:  # the run has ended, too
        resume.end_run(record, "interrupted")
        raise
    return scores


def _scores(driver: Driver, run: TrialRow, weights: Path) -> dict[str, float]:
    """The winner's scores on the test rows; those that are known, where it has been scored before."""
    record, end = driver.record, driver.end
    known = next((test for test in record.info.tests if test.run == run.number), None)
    if known is not None:  # before the sweep was resumed
        _note_test(record, known, end)
        return dict(known.scores)
    is_settled = end.outcome != "interrupted" and not record.is_to_be_confirmed
    if not is_settled or run.trainable in record.info.without_test:
        return {}
    scores = _test(driver, run, weights)
    if scores:
        _note_test(record, TestScore(run.number, scores), end)
    return scores


def _note_test(record: Record, test: TestScore, end: End) -> None:
    try:
        record.note_test(test)
    except RecordLost as error:
        end.stop("lost", str(error))


def _weights(plan: Plan, record: Record, run: TrialRow) -> Path | None:
    """The folder `best/`, made from a trial's checkpoint; None when its weights are nowhere."""
    folder = plan.folder / FOLDER
    newest, _ = plan.storage.newest(run.number, {**run.fixed, **run.params})
    if newest is not None and checkpoint_store.epoch_of(newest) >= (run.best_epoch(record.objective) or 0):
        _set_aside(plan, record, run, newest)
        return folder
    if best_model.run_in(folder) == run.number:
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # of another trial, which is the best no more
    return None


def _test(driver: Driver, run: TrialRow, weights: Path) -> dict[str, float]:
    """In a process of its own: what a user's test does to it is not done to this one."""
    print(f"Scoring trial {run.number} on the test rows ...", flush=True)
    content = (weights / "weights.pt").read_bytes()
    config, cluster, gpus = driver.config, driver.cluster, driver.gpus_per_trial
    if not placement.holds_a_worker(config, [node.offer for node in cluster.nodes()], gpus):
        print("The winner could not be tested: no PC that is left has room for it.", flush=True)
        return {}
    closed = cluster.membership.closed if cluster.membership else ()
    task = ray.remote(test_winner).options(**placement.of_task(config, gpus, closed))
    try:
        scores: dict[str, float] = ray.get(task.remote(job_of(driver.plan), run.point, run.seed, content))
    except RayError as error:
        print(f"The winner could not be tested: {str(error).strip().splitlines()[-1]}", flush=True)
        return {}
    return scores


def _set_aside(plan: Plan, record: Record, run: TrialRow, checkpoint: Path) -> None:
    """Write the folder `best`."""
    workers = plan.config.workers_per_trial  # again on one PC, where no one has to start them
    fit = dataclasses.replace(job_of(plan).fit, seed=run.seed, devices=workers, num_nodes=1)
    with atomic_io.atomic_write(plan.folder / FOLDER) as part:
        part.mkdir()
        shutil.copy(checkpoint / "weights.pt", part / "weights.pt")
        (part / sweep_folder.PARAMS_FILE).write_text(best_folder.params_text(plan, record, run, fit))
        shutil.rmtree(plan.folder / FOLDER, ignore_errors=True)
