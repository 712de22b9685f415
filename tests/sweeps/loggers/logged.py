"""What a logger writes of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from optuna.storages import JournalStorage

from sweeps.config import plugins
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.journal_reader import ReadOnlyJournal
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow, row_of

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


def rows(record: Record) -> list[TrialRow]:
    """As a logger gets them."""
    storage = JournalStorage(ReadOnlyJournal(record.folder / JOURNAL))
    return [row_of(frozen, "t") for frozen in storage.get_all_trials(0)]


def log(name: str, record: Record, is_on: bool = False) -> None:
    """By a logger that has just been started."""
    logger = plugins.find("logger", name).build(record.folder, record.about)
    for trial in rows(record):
        logger.write(trial, is_on)
