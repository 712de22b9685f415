"""What a logger writes of a record, and what can be read of it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sweeps.config import plugins
from sweeps.loggers import _follower
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests import ROOT

Events = dict[str, list[tuple[int, float]]]


def of_file(path: Path) -> tuple[Events, dict[str, Any], list[str]]:
    """Scalars by tag, hparams, and the tags of all else, by TensorBoard's own reader."""
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader",
        reason="TensorBoard's reader is not installed (make mlflow)",
    )
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util import tensor_util

    scalars: Events = {}
    hparams: dict[str, Any] = {}
    others = []
    for event in loader.EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                number = float(tensor_util.make_ndarray(value.tensor))
                scalars.setdefault(value.tag, []).append((event.step, number))
                continue
            others.append(value.tag)
            if value.tag == "_hparams_/session_start_info":
                data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
                for name, hyperparameter in data.session_start_info.hparams.items():
                    hparams[name] = getattr(hyperparameter, hyperparameter.WhichOneof("kind"))
    return scalars, hparams, others


def event_files(folder: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in sorted(folder.glob("tensorboard/*/events.out.tfevents.*"))}


def log(name: str, record: Record, is_on: bool = False) -> None:
    """By a logger that has just been started. W&B does not work again in a process in which it has ended."""
    if name == "wandb":
        log_anew(name, record, is_on)
    else:
        log_here(name, record.folder, record.about, is_on)


def log_here(name: str, folder: Path, about: Mapping[str, Any], is_on: bool) -> None:
    logger = plugins.find("logger", name).build(folder, about)
    for trial in rows(folder):
        logger.write(trial, is_on)
    logger.close()


def rows(folder: Path) -> list[TrialRow]:
    """As a logger gets them."""
    return [*_follower.attempts_in(Record.read(folder))]


def log_anew(name: str, record: Record, is_on: bool = False) -> None:
    """The same in a process of its own."""
    code = (
        "import json, sys, pathlib; from tests.sweeps.loggers.logged import log_here;"
        "name, folder, about, is_on = sys.argv[1:];"
        "log_here(name, pathlib.Path(folder), json.loads(about), is_on == 'True')"
    )
    arguments = [name, str(record.folder), json.dumps(dict(record.about)), str(is_on)]
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, check=True)


@dataclass
class WandbRun:
    """A run of W&B, of all its files together."""

    names: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_codes: list[int] = field(default_factory=list)
    """Of each file that is whole."""


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of a file, up to the first that is incomplete.

    It is a log of LevelDB (https://github.com/google/leveldb/blob/main/doc/log_format.md) with a header of 7
    bytes.
    """
    from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

    content, position, record = path.read_bytes(), 7, b""
    while position + 7 <= len(content):
        if (left := 32768 - position % 32768) < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        part = content[position + 7 : position + 7 + length]
        position += 7 + length
        if len(part) < length or kind not in (1, 2, 3, 4):
            return
        record = part if kind in (1, 2) else record + part  # 1: whole, 2: the first part, 4: the last
        if kind in (1, 4):
            yield WandbRecord.FromString(record)


def wandb_runs(folder: Path) -> dict[str, WandbRun]:
    """By id, in order of their names, by wandb's protocol buffers."""
    runs: dict[str, WandbRun] = {}
    for path in sorted(folder.glob("wandb/*run-*/run-*.wandb")):
        for record in wandb_records(path):
            if record.WhichOneof("record_type") == "run":
                run = runs.setdefault(record.run.run_id, WandbRun())
                run.names.add(record.run.display_name)
                run.groups.add(record.run.run_group)
                run.config.update(
                    {item.key: json.loads(item.value_json) for item in record.run.config.update}
                )
            elif record.WhichOneof("record_type") == "history":
                row = {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                run.history.append(row)
            elif record.WhichOneof("record_type") == "summary":
                values = {item.key: json.loads(item.value_json) for item in record.summary.update if item.key}
                run.summary.update(values)
            elif record.WhichOneof("record_type") == "exit":
                run.exit_codes.append(record.exit.exit_code)
    return dict(sorted(runs.items(), key=lambda pair: min(pair[1].names)))


Epochs = dict[int, list[tuple[int, float]]]
"""Trial to its epochs, each with its score, in the order in which they are there."""


def _in_tensorboard(folder: Path) -> Epochs:
    files = event_files(folder)
    return {
        int(name.removeprefix("trial_")): of_file(path)[0].get("score", []) for name, path in files.items()
    }


def _in_mlflow(folder: Path) -> Epochs:
    """By SQLite: MLflow's client keeps a database open, also one that was removed."""
    query = (
        "SELECT CAST(tags.value AS INTEGER), step, metrics.value FROM tags LEFT JOIN metrics"
        " ON metrics.run_uuid = tags.run_uuid AND metrics.key = 'score' WHERE tags.key = 'trial'"
        " ORDER BY 1, 2"
    )
    found: Epochs = {}
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'mlflow.db'}?mode=ro", uri=True)) as database:
        for trial, step, value in database.execute(query):
            found.setdefault(trial, []).extend([] if step is None else [(step, value)])
    return found


def _in_wandb(folder: Path) -> Epochs:
    return {
        int(min(run.names).removeprefix("trial_")): [(row["_step"], row["score"]) for row in run.history]
        for run in wandb_runs(folder).values()
    }


EPOCHS_IN: Mapping[str, Callable[[Path], Epochs]] = {
    "tensorboard": _in_tensorboard,
    "mlflow": _in_mlflow,
    "wandb": _in_wandb,
}
"""Logger to what it has written into the folder of a sweep."""
