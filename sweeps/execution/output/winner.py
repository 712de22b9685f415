"""The best trial, or the front of several objectives: `best/`, with weights and params, and, once, the score
of the first one on the test rows."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from sweeps.common import atomic_io
from sweeps.common.cli import json_output
from sweeps.common.cli.terminal import say, step
from sweeps.common.errors import reason_of
from sweeps.common.formatting import shown_path
from sweeps.common.param_types import readable
from sweeps.config.sweep_folder import BEST_FOLDER, FRONT_FOLDER, METRICS_FILE, PARAMS_FILE
from sweeps.execution.run_context import RunContext, job_of
from sweeps.kinds import params_file
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.places.place_divider import CLAIM_EVERY_S
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.status import in_words
from sweeps.record.sweep_info import HeldOutScore, Outcome
from sweeps.record.trials import TrialRow
from sweeps.storage import retention
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.trial.job import test_winner


def keep(context: RunContext) -> dict[str, float]:
    """Write `best/`; score the winner, and no other trial, on the test rows.

    Returns:
        The test metrics; {} where the winner is not final (the sweep was interrupted, or is to be confirmed,
        or the winner itself has not ended), where there is none, or where its model has no `test_step`.
    """
    plan, record, end = context.plan, context.record, context.end
    if end.outcome in (Outcome.ERROR, Outcome.LOST):
        return {}
    try:
        runs = _with_weights(plan, record, retention.runs_of_front(record, plan.storage))
        if not runs or not _write(plan, record, runs):
            return {}
        weights = plan.folder / BEST_FOLDER
        scores = _scores(context, runs[0], weights)
        atomic_io.write(weights / METRICS_FILE, _metrics_text(record, runs[0], scores))
    except OSError as error:
        end.stop(Outcome.LOST, f"{BEST_FOLDER}/ can't be written: {error.strerror or error}")
        return {}
    except KeyboardInterrupt:  # the run has ended, too
        record.end_run(Outcome.INTERRUPTED)
        raise
    return scores


def _with_weights(plan: Plan, record: Record, runs: Sequence[TrialRow]) -> Sequence[TrialRow]:
    """The best runs; where the first one has not ended, and was left without its best weights, the best trial
    that has ended."""
    ended = record.ended_leaders(1)
    if (
        not ended
        or runs[0].status != "unfinished"
        or not plan.has_weights(runs[0].trainable)
        or _source(plan, record, runs[0]) is not None
    ):
        return runs
    say(
        f"The best weights of trial {runs[0].number} were not saved, and a resume trains them again: "
        f"{BEST_FOLDER}/ holds those of trial {ended[0]}."
    )
    return [record.trials[number] for number in ended]


def again(plan: Plan, trial: TrialRow, within: str = "") -> tuple[str, ...]:
    """The words behind `sweeps fit` that train a trial again whose weights are in `best/`, or in a folder
    within."""
    return trial.trainable, "--params", shown_path(plan.folder / BEST_FOLDER / within / PARAMS_FILE)


def _scores(context: RunContext, run: TrialRow, weights: Path) -> dict[str, float]:
    """The winner's scores on the test rows: from the record where it has been scored before."""
    record, end = context.record, context.end
    reported = run.best_reported(record.objective)
    tests = (test for test in record.info.tests if test.run == run.number)
    known = next((test for test in tests if test.reported == reported), None)
    if known is None:
        is_final = end.outcome is not Outcome.INTERRUPTED and not record.is_to_be_confirmed
        if not is_final or run.status == "unfinished" or run.trainable in record.info.without_test:
            return {}
        known = HeldOutScore(run.number, _test(context, run, weights), reported)
    if known.scores:
        try:
            record.note_test(known)
        except RecordLost as error:
            end.stop(Outcome.LOST, str(error))
    return dict(known.scores)


def _write(plan: Plan, record: Record, runs: Sequence[TrialRow]) -> bool:
    """Make `best/` from the checkpoints of the best runs, the first one in it and each other one of a front
    in a folder of its own; whether it holds the first one."""
    best = plan.folder / BEST_FOLDER
    first, source = runs[0], _source(plan, record, runs[0])
    if source is None and plan.has_weights(first.trainable):
        say(f"The weights of trial {first.number} are lost: {BEST_FOLDER}/ is not written.")
        shutil.rmtree(best, ignore_errors=True)  # of a trial that is no longer the best
        return False
    if len(runs) == 1 and source == best:
        return True
    with atomic_io.atomic_write(best) as part:
        part.mkdir()
        for run in runs:
            if run is not first:  # one after the other: a download stays until the next one
                source = _source(plan, record, run)
            if source is None and plan.has_weights(run.trainable):
                say(f"The weights of trial {run.number} are lost: {BEST_FOLDER}/ is written without them.")
                continue
            within = "" if run is first else FRONT_FOLDER.format(_of_search(run))
            _write_folder(plan, record, run, source, part, within)
        shutil.rmtree(best, ignore_errors=True)
    return True


def _source(plan: Plan, record: Record, run: TrialRow) -> Path | None:
    """Where the weights of a run are: its newest checkpoint, or a folder of `best/`; None where they are
    lost."""
    best_epoch = run.best_epoch(record.objective) or 0
    newest, _ = plan.storage.newest(run.number, {**run.fixed, **run.params})
    if newest is not None and (
        checkpoint_store.epoch_of(newest) >= best_epoch or not plan.has_weights(run.trainable)
    ):
        return newest
    return retention.best_folder_of(plan.folder, _of_search(run), run.number, best_epoch)


def _write_folder(
    plan: Plan, record: Record, run: TrialRow, source: Path | None, best: Path, within: str
) -> None:
    """Fill `best/`, or a folder within, with a run and its weights, which are in the source; None: it has
    none."""
    workers = plan.config.workers_per_trial  # `sweeps fit` starts all of them on one PC
    job = job_of(plan)
    fit = job.fit_of({"seed": run.seed, "micro_batch": run.micro_batch})
    fit = dataclasses.replace(fit, devices=workers, num_nodes=1)
    into = best / within
    into.mkdir(exist_ok=True)
    if source is not None:
        for file in params_file.files_of_weights(source):
            (target := into / file.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    (into / PARAMS_FILE).write_text(_params_text(plan, record, run, fit, within))
    if within:  # the metrics of the first one have its score on the test rows
        (into / METRICS_FILE).write_text(_metrics_text(record, run, {}))
    settings = fit.settings()
    if fit.precision == "auto" and "gpu" in run.place:
        settings["precision"] = "16-mixed" if run.place["gpu"] else "32"
    for model in plan.models:
        if model.name == run.trainable:
            where = shown_path(plan.folder / BEST_FOLDER / within)
            for name, text in model.trainable.export({**run.fixed, **run.params}, settings, where).items():
                (into / name).write_text(text)


def _test(context: RunContext, run: TrialRow, weights: Path) -> dict[str, float]:
    """Score in a process of its own, so that a user's test can't harm this one."""
    files = {file.name: file.read_bytes() for file in params_file.files_of_weights(weights)}
    config, cluster, gpus = context.config, context.cluster, context.gpus_per_trial
    if not placement.holds_a_worker(config, [node.offer for node in cluster.nodes()], gpus):
        say("The winner could not be tested: no PC of the cluster has room for it now.")
        return {}
    task = ray.remote(test_winner).options(**placement.task_resources(config, gpus, cluster.closed))
    try:
        job = job_of(context.plan)
        with step(f"Scoring trial {run.number} on the test rows"):
            answer = task.remote(job, run.point, run.seed, run.micro_batch, files)
            while not ray.wait([answer], timeout=CLAIM_EVERY_S)[0]:  # it needs a place, as a trial does
                if context.places.is_due():
                    worker = placement.worker_resources(config, gpus)
                    context.places.claim(config, worker, 1, {}, cluster.closed)
            scores: dict[str, float] = ray.get(answer)
    except RayError as error:
        say(f"The winner could not be tested: {reason_of(error)}")
        return {}
    return scores


def _params_text(plan: Plan, record: Record, run: TrialRow, config: FitConfig, within: str) -> str:
    """The text of params.yaml, for the winner or the rerun of it whose weights these are."""
    score, epoch = run.best_score(record.objective), run.best_epoch(record.objective)
    reached = f"{record.objective.metric} {score}"
    if record.objectives.are_several:
        reached = in_words(record, run.values(record.objectives))
    called = f"trial {run.number}"
    if run.confirms is not None:
        called = f"trial {run.confirms} with seed {run.seed} (trial {run.number})"
    head = [
        f"{called} of sweep {plan.config.name}: {reached} in epoch {epoch}",
        f"Train it again: sweeps fit {shlex.join(again(plan, run, within))}",
    ]
    found = {"score": score, "epoch": epoch, "trial": _of_search(run), "run": run.number}
    params_class = next(model.trainable.params_class for model in plan.models if model.name == run.trainable)
    params = readable(params_class, {**run.fixed, **run.params})
    return params_file.write(run.trainable, params, config.settings(), found, head)


def _metrics_text(record: Record, run: TrialRow, test_scores: Mapping[str, float]) -> str:
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
    if record.objectives.are_several and _of_search(run) == record.front()[0]:
        names = record.objectives.metrics
        content["front"] = [
            {
                "trial": number,
                "folder": FRONT_FOLDER.format(number) if place else ".",
                "values": dict(zip(names, values, strict=True)),
            }
            for place, (number, values) in enumerate(record.front_values().items())
        ]
    for trial in record.confirmed():
        if trial.number != _of_search(run):
            continue
        content["confirmed"] = {
            "mean": trial.mean if trial.scores else None,
            "std": trial.std,
            "scores": list(trial.scores),
            "failures": trial.failures,
            "score_in_search": record.trials[trial.number].best_score(record.objective),
        }
        if record.objectives.are_several and trial.scores:
            content["confirmed"]["means"] = dict(zip(record.objectives.metrics, trial.means, strict=True))
    return json.dumps(json_output.plain(content), indent=2) + "\n"


def _of_search(run: TrialRow) -> int:
    """The trial of the search that a run is, or reruns."""
    return run.number if run.confirms is None else run.confirms
