"""Whose weights `best/` holds, and whose it is to hold."""

from __future__ import annotations

from pathlib import Path

import yaml

from sweeps.common.yaml_values import load_yaml
from sweeps.config.sweep_folder import BEST_FOLDER, FRONT_FOLDER, PARAMS_FILE
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.storage import retention
from sweeps.storage.protocol import Storage


def run_in(folder: Path, epoch: int | None = None) -> int | None:
    """Whose weights `best/`, or a folder in it, holds; None where they are of another epoch than that."""
    try:
        content = load_yaml((folder / PARAMS_FILE).read_text())
        if epoch not in (None, content.get("epoch", epoch)):
            return None
        return int(content["run"] if "run" in content else content["trial"])
    except (OSError, yaml.YAMLError, AttributeError, TypeError, KeyError, ValueError):
        return None


def folder_of(sweep: Path, number: int, run: int, epoch: int) -> Path | None:
    """`best/`, or the folder in it of a trial of the front, if that holds these weights; else None.

    Args:
        sweep: its folder.
        number: of the trial.
        run: the trial itself or one of its reruns, by its number.
        epoch: the best one of the run. A run that goes on after a stop may have a better one than `best/`.
    """
    return next((folder for folder in _folders_of(sweep, number) if run_in(folder, epoch) == run), None)


def _folders_of(sweep: Path, number: int) -> tuple[Path, Path]:
    """Where in `best/` the weights of a trial are, if it is first, and if it is not."""
    best = sweep / BEST_FOLDER
    return best, best / FRONT_FOLDER.format(number)


def is_lost(record: Record, storage: Storage) -> bool:
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
    there = map(run_in, _folders_of(record.folder, number))
    return retention.best_rerun(record, storage, number, [run for run in there if run is not None])
