"""The record as Arrow tables."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from sweeps.common import atomic_io
from sweeps.common.cli import json_output
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, encodable, shown_path
from sweeps.config.sweep_folder import EPOCHS_SUFFIX, no_sweep
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.training.time_breakdown import COSTS, mean_costs


def _column(kind: pa.DataType, values: Iterable[Any]) -> pa.Array:
    return pa.array(list(values), kind)


_wholes, _numbers = partial(_column, pa.int64()), partial(_column, pa.float64())


def _texts(values: Iterable[str | None]) -> pa.Array:
    return _column(pa.string(), (None if value is None else encodable(value) for value in values))


def _times(seconds: Iterable[float | None]) -> pa.Array:
    """Of seconds since 1970."""
    moments = (None if moment is None else datetime.fromtimestamp(moment, UTC) for moment in seconds)
    return _column(pa.timestamp("ms", tz="UTC"), moments)


def _narrowest(values: Iterable[Any]) -> pa.Array:
    """A column of the narrowest type that holds all values; mixed ones (64 and "all") become text, as do
    numbers that no type holds."""
    found = list(values)
    kinds = {type(value) for value in found if value is not None}
    if not kinds:
        return _column(pa.null(), found)
    types = (({bool}, pa.bool_()), ({int}, pa.int64()), ({int, float}, pa.float64()))
    for held, kind in types:
        if kinds <= held:
            with contextlib.suppress(OverflowError, pa.ArrowInvalid):  # a number beyond 64 bits
                return _column(kind, found)
            break
    return _texts(None if value is None else str(value) for value in found)


def write_csv(folder: Path, name: str) -> list[str]:
    """Write the tables of a sweep as CSV, a row for each trial, and beside it one for each epoch; a line for
    each file. `-` writes the trials to the standard output.

    Raises:
        UserError: there is no sweep, its record is damaged, or there is no place to write to.
    """
    if (why := no_sweep(folder)) is not None:
        raise UserError(why)
    try:
        record = Record.read(folder)
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    if name == "-":
        csv.write_csv(trials_table(record), sys.stdout.buffer)
        return []
    path, lines = Path(name).expanduser(), []
    beside = path.parent / f"{path.stem}{EPOCHS_SUFFIX}"
    for file, table in ((path, trials_table(record)), (beside, epochs_table(record))):
        try:
            with atomic_io.atomic_write(file) as part:
                csv.write_csv(table, part)
        except OSError as error:
            raise UserError(f"--csv {name}: {error.strerror or error}") from None
        lines.append(f"{shown_path(file)}: {count(table.num_rows, 'row')}")
    json_output.answer(files=[str(path), str(beside)])
    return lines


def trials_table(record: Record) -> pa.Table:
    """A row per trial.

    Columns: id, trainable (where there are several), status, reason, log (of a failure), notices (a broken
    checkpoint, say), micro_batch (rows that it trained at once, after it had run out of memory), `params_X`
    for every hyperparameter (fixed ones too), epochs, best_epoch, `best_M` and `last_M` for every logged
    metric M, seconds (trained) and the costs of `epochs_table` over all its epochs, pc, pid, gpu, start, end
    (UTC), seed, confirms (of a rerun: id of the trial that was trained again with this seed), origin (of an
    anchor: the trial of an earlier sweep that it runs again; else ""), on_front (with several objectives).
    Where some have a note or tags of the user: note, tags (`a, b`).
    Where some were trained again: attempts, how many each has had. Where what scores depend on has changed
    between runs of the sweep: code, which one a trial was trained with, from 1 (`1, 2`: it went on then).
    A hyperparameter that a trial did not have is null, as is a value that is null; a column of values of
    several kinds is text.
    """
    trials = record.trials
    costs = [mean_costs((row.seconds, row.costs) for row in trial.epochs.values()) for trial in trials]
    front: dict[str, pa.Array] = {}
    if record.objectives.are_several:
        on_front = set(record.front())
        front["on_front"] = _column(pa.bool_(), (trial.number in on_front for trial in trials))
    attempts = [trial.attempt + 1 for trial in trials]
    several = {"trainable": _texts(trial.trainable for trial in trials)} if record.info.is_of_several else {}
    return pa.table(
        {
            "id": _wholes(trial.number for trial in trials),
            **several,
            "status": _texts(trial.status for trial in trials),
            "reason": _texts(trial.reason for trial in trials),
            "log": _texts(trial.log for trial in trials),
            "notices": _texts("; ".join(trial.notices) for trial in trials),
            "micro_batch": _wholes(trial.micro_batch for trial in trials),
            **_param_columns(record),
            "epochs": _wholes(len(trial.epochs) for trial in trials),
            **_metric_columns(record),
            "seconds": _numbers(trial.seconds for trial in trials),
            **{name: _numbers(row.get(name) for row in costs) for name in COSTS},
            "pc": _texts(trial.place.get("pc") for trial in trials),
            "pid": _wholes(trial.place.get("pid") for trial in trials),
            "gpu": _texts(trial.place.get("gpu") for trial in trials),
            "start": _times(trial.start for trial in trials),
            "end": _times(trial.end for trial in trials),
            "seed": _wholes(trial.seed for trial in trials),
            "confirms": _wholes(trial.confirms for trial in trials),
            "origin": _texts(trial.origin for trial in trials),
            **front,
            **({"note": _texts(t.note for t in trials)} if any(t.note for t in trials) else {}),
            **({"tags": _texts(", ".join(t.tags) for t in trials)} if any(t.tags for t in trials) else {}),
            **({"attempts": _wholes(attempts)} if max(attempts, default=1) > 1 else {}),
            **({"code": _texts(codes)} if (codes := record.codes()) else {}),
        }
    )


def _metric_columns(record: Record) -> dict[str, pa.Array]:
    """best_epoch, and the metrics of that epoch and of the last one."""
    trials, names = record.trials, _metric_names(record)
    epochs = [trial.best_epoch(record.objective) for trial in trials]
    best = [{} if e is None else trial.epochs[e].metrics for trial, e in zip(trials, epochs, strict=True)]
    last = [trial.last_metrics for trial in trials]
    return {
        "best_epoch": _wholes(epochs),
        **{f"best_{column}": _numbers(row.get(name) for row in best) for name, column in names.items()},
        **{f"last_{column}": _numbers(row.get(name) for row in last) for name, column in names.items()},
    }


def _param_columns(record: Record) -> dict[str, pa.Array]:
    """`params_X` of every hyperparameter, those that were swept first."""
    params = [{**trial.fixed, **trial.params} for trial in record.trials]
    swept = [name for trial in record.trials for name in trial.params]
    names = dict.fromkeys([*swept, *(name for trial in record.trials for name in trial.fixed)])
    return {f"params_{name}": _narrowest(row.get(name) for row in params) for name in names}


def epochs_table(record: Record) -> pa.Table:
    """A row per reported epoch: id (of the trial), epoch, every logged metric, seconds, costs, time (UTC).

    Costs are percentages of the epoch's time (data_wait_pct, transfer_pct, forward_pct, backward_pct,
    optimizer_pct, checkpoint_pct), how busy it kept its devices (cpu_busy_pct, gpu_util_pct) and the memory
    that it held (memory_gb, gpu_memory_gb); null where there is no GPU, or in a record of an older version.
    """
    numbers = [(trial.number, epoch) for trial in record.trials for epoch in sorted(trial.epochs)]
    rows = [record.trials[number].epochs[epoch] for number, epoch in numbers]
    return pa.table(
        {
            "id": _wholes(number for number, _ in numbers),
            "epoch": _wholes(epoch for _, epoch in numbers),
            **{
                column: _numbers(row.metrics.get(name) for row in rows)
                for name, column in _metric_names(record).items()
            },
            "seconds": _numbers(row.seconds for row in rows),
            **{name: _numbers(row.costs.get(name) for row in rows) for name in COSTS},
            "time": _times(row.time for row in rows),
        }
    )


def _metric_names(record: Record) -> dict[str, str]:
    """Logged name to column, also of a record without an epoch; a metric with the name of another
    column gets the suffix `_logged`."""
    logged = (name for trial in record.trials for row in trial.epochs.values() for name in row.metrics)
    names = dict.fromkeys([record.objective.metric, *logged])
    others = {"id", "epoch", "seconds", "time", *COSTS}
    return {name: f"{name}_logged" if name in others else name for name in names}
