"""Which weights are kept: those of the best trials, by number or by size, of reruns that may be the winner's,
and of some trials that failed, for a retry; and whose `best/` holds."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

import yaml

from sweeps.common.formatting import bytes_of
from sweeps.common.yaml_values import load_yaml
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import BEST_FOLDER, FRONT_FOLDER, PARAMS_FILE
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.storage.protocol import Storage, StorageError

KEPT_OF_FAILED = 3
"""Trials that failed and keep their newest checkpoint, those that have trained furthest: if all did, they
could fill the disk."""


def kept(config: SweepConfig, record: Record, storage: Storage) -> set[int]:
    """Numbers of the ended trials whose weights are kept: the best ones of the search, as many as
    --keep-checkpoints says or as fit in it, of several objectives the whole front; the best rerun of the
    winner, or of each trial of the front (of each rerun trial, until all reruns have ended); and of those
    that failed a few."""
    candidates = record.front() if record.confirmed_with_score() else record.rerun_trials
    best = (best_rerun(record, storage, number) for number in candidates)
    failed = (trial for trial in record.searched if trial.status == "failed" and trial.checkpoint_bytes)
    furthest = sorted(failed, key=lambda trial: -len(trial.epochs))[:KEPT_OF_FAILED]
    return {
        *_leaders(config, record),
        *(rerun.number for rerun in best if rerun),
        *(trial.number for trial in furthest),
    }


def _leaders(config: SweepConfig, record: Record, if_ended: int | None = None) -> list[int]:
    keep = config.keep_checkpoints
    if isinstance(keep, int):
        return record.ended_leaders(keep, if_ended=if_ended)
    return record.ended_leaders(math.inf, bytes_of(keep) or 0, if_ended)


def would_be_kept(config: SweepConfig, record: Record, storage: Storage, number: int) -> bool:
    """Whether the weights of a trial would be kept if it finished now; those of a rerun also where the
    storage does not answer: they are written with more patience."""
    try:
        return _would_be_kept(config, record, storage, number)
    except StorageError:
        return record.trials[number].best_score(record.objective) is not None


def _would_be_kept(config: SweepConfig, record: Record, storage: Storage, number: int) -> bool:
    trial = record.trials[number]
    if trial.confirms is None:
        return number in _leaders(config, record, if_ended=number)
    best, score = best_rerun(record, storage, trial.confirms), trial.best_score(record.objective)
    if best is None or best is trial:
        return score is not None
    return record.objective.is_better(score, best.best_score(record.objective))


def lacks_weights(config: SweepConfig, record: Record, storage: Storage, number: int) -> bool:
    """Whether a trial is among the best and has no checkpoint of its best epoch.

    Raises:
        StorageError: the storage does not answer.
    """
    best = record.trials[number].best_epoch(record.objective)
    if best is None or not _would_be_kept(config, record, storage, number):
        return False
    return max(storage.epochs(number), default=0) < best


def drop(
    config: SweepConfig, record: Record, storage: Storage, ended: int, before: Collection[int] = ()
) -> None:
    """Remove of a trial that ended all checkpoints but its newest, and all of each trial that is no
    longer kept, of those that were before.

    Raises:
        StorageError: the storage does not answer.
    """
    for number in {ended, *before} - kept(config, record, storage):
        storage.remove(number)
    for epoch in storage.epochs(ended)[1:]:
        storage.remove(ended, epoch)


def best_rerun(record: Record, storage: Storage, number: int, kept: Collection[int] = ()) -> TrialRow | None:
    """The best finished rerun of a trial whose weights are in the storage, or are `kept`."""
    objective = record.objective
    scores = {
        rerun.number: score
        for rerun in record.reruns_of(number)
        if rerun.status == "finished" and (score := rerun.best_score(objective)) is not None
    }
    best_first = sorted(scores, key=lambda rerun: -objective.sign * scores[rerun])
    there = (rerun for rerun in best_first if rerun in kept or storage.epochs(rerun))  # a store may be far
    return next((record.trials[rerun] for rerun in there), None)


def run_of_best_folder(folder: Path, epoch: int | None = None) -> int | None:
    """Whose weights `best/`, or a folder in it, holds; None where they are of another epoch than that."""
    try:
        content = load_yaml((folder / PARAMS_FILE).read_text())
        if epoch not in (None, content.get("epoch", epoch)):
            return None
        return int(content["run"] if "run" in content else content["trial"])
    except (OSError, yaml.YAMLError, AttributeError, TypeError, KeyError, ValueError):
        return None


def best_folder_of(sweep: Path, number: int, run: int, epoch: int) -> Path | None:
    """`best/`, or the folder in it of a trial of the front, if that holds these weights; else None.

    Args:
        sweep: its folder.
        number: of the trial.
        run: the trial itself or one of its reruns, by its number.
        epoch: the best one of the run. A run that goes on after a stop may have a better one than `best/`.
    """
    return next(
        (folder for folder in _folders_of(sweep, number) if run_of_best_folder(folder, epoch) == run), None
    )


def _folders_of(sweep: Path, number: int) -> tuple[Path, Path]:
    """Where in `best/` the weights of a trial are, if it is first, and if it is not."""
    best = sweep / BEST_FOLDER
    return best, best / FRONT_FOLDER.format(number)


def is_best_folder_lost(record: Record, storage: Storage) -> bool:
    """Whether `best/` is not there, and can be made."""
    runs = runs_of_front(record, storage)
    if not runs or (record.folder / BEST_FOLDER).is_dir():
        return False
    return bool(storage.epochs(runs[0].number))


def runs_of_front(record: Record, storage: Storage) -> list[TrialRow]:
    """For each trial of the front the run whose weights are its own: the trial itself, or, where it was
    confirmed, the best of its reruns whose weights are there, in `best/` or as a checkpoint."""
    confirmed = {trial.number for trial in record.confirmed()}
    return [
        (_best_rerun(record, storage, number) if number in confirmed else None) or record.trials[number]
        for number in record.front()
    ]


def _best_rerun(record: Record, storage: Storage, number: int) -> TrialRow | None:
    there = map(run_of_best_folder, _folders_of(record.folder, number))
    return best_rerun(record, storage, number, [run for run in there if run is not None])
