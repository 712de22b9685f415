"""The record as Arrow tables, written as Parquet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.common import atomic_io
from sweeps.common.objective import Objective
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.training.profiling.time_breakdown import COSTS, mean_costs

TRIALS_FILE, EPOCHS_FILE = "trials.parquet", "epochs.parquet"
_TIME = pa.timestamp("ms", tz="UTC")


def trials_table(record: Record) -> pa.Table:
    """A row per trial.

    Columns: id, trainable (where there are several), status, reason, log (of a failure), notices (a broken
    checkpoint, say), `params_X` for every hyperparameter (those that stood still too), epochs, best_epoch,
    `best_M` and `last_M` for every logged metric M, seconds (trained) and the costs of `epochs_table` over
    all its epochs, pc, pid, gpu, start, end (UTC), seed, confirms (of a rerun: id of the trial that was
    trained again with this seed), origin (of an anchor: the trial of an earlier sweep that it runs again;
    else ""). A hyperparameter that a trial did not have is null.
    """
    metrics = _metric_names(record)
    swept = dict.fromkeys(name for trial in record.trials for name in trial.params)
    hyperparameters = dict.fromkeys([*swept, *(name for trial in record.trials for name in trial.fixed)])
    rows = [_trial_row(trial, record.objective, hyperparameters, metrics) for trial in record.trials]
    types = {name: _type_of(row[f"params_{name}"] for row in rows) for name in hyperparameters}
    for name in (name for name, kind in types.items() if pa.types.is_string(kind)):
        for row in rows:  # of mixed types: 64 and "all"
            value = row[f"params_{name}"]
            row[f"params_{name}"] = None if value is None else str(value)
    several = record.info.is_of_several
    return pa.Table.from_pylist(rows, schema=_trials_schema(several, types, list(metrics.values())))


def _trials_schema(
    several: bool, hyperparameters: Mapping[str, pa.DataType], metrics: Iterable[str]
) -> pa.Schema:
    """Columns of `trials_table`; `several`: whether there are several trainables."""
    text, whole, number = pa.string(), pa.int64(), pa.float64()
    scores = [f"{which}_{name}" for which in ("best", "last") for name in metrics]
    return pa.schema(
        [
            ("id", whole),
            *([("trainable", text)] if several else []),
            *((name, text) for name in ("status", "reason", "log", "notices")),
            *((f"params_{name}", kind) for name, kind in hyperparameters.items()),
            *((name, whole) for name in ("epochs", "best_epoch")),
            *((name, number) for name in (*scores, "seconds", *COSTS)),
            *(("pc", text), ("pid", whole), ("gpu", text)),
            *(("start", _TIME), ("end", _TIME)),
            *(("seed", whole), ("confirms", whole), ("origin", text)),
        ]
    )


def epochs_table(record: Record) -> pa.Table:
    """A row per reported epoch: id (of the trial), epoch, every logged metric, seconds, costs, time (UTC).

    Costs are percentages of the epoch's time (data_wait_pct, transfer_pct, forward_pct, backward_pct,
    optimizer_pct, checkpoint_pct), how busy it kept its devices (cpu_busy_pct, gpu_util_pct) and the memory
    that it held (memory_gb, gpu_memory_gb); null where there is no GPU, or in a record of an older version.
    """
    metrics = _metric_names(record)
    fields = [
        pa.field("id", pa.int64()),
        pa.field("epoch", pa.int64()),
        *(pa.field(name, pa.float64()) for name in metrics.values()),
        *(pa.field(name, pa.float64()) for name in ("seconds", *COSTS)),
        pa.field("time", _TIME),
    ]
    rows = [
        {
            "id": trial.number,
            "epoch": epoch,
            **{column: row.metrics.get(name) for name, column in metrics.items()},
            "seconds": row.seconds,
            **row.costs,
            "time": _moment(row.time),
        }
        for trial in record.trials
        for epoch, row in sorted(trial.epochs.items())
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def write_tables(record: Record, folder: Path) -> None:
    """Write both tables as Parquet."""
    for name, table in ((TRIALS_FILE, trials_table(record)), (EPOCHS_FILE, epochs_table(record))):
        with atomic_io.atomic_write(folder / name) as part:
            pq.write_table(table, part)


def _trial_row(
    trial: TrialRow, objective: Objective, hyperparameters: Iterable[str], metrics: Mapping[str, str]
) -> dict[str, Any]:
    best_epoch = trial.best_epoch(objective)
    best = {} if best_epoch is None else trial.epochs[best_epoch].metrics
    last = trial.epochs[max(trial.epochs)].metrics if trial.epochs else {}
    params = {**trial.fixed, **trial.params}
    return {
        "id": trial.number,
        "trainable": trial.trainable,
        "status": trial.status,
        "reason": trial.reason,
        "log": trial.log,
        "notices": "; ".join(trial.notices),
        **{f"params_{name}": params.get(name) for name in hyperparameters},
        "epochs": len(trial.epochs),
        "best_epoch": best_epoch,
        **{f"best_{column}": best.get(name) for name, column in metrics.items()},
        **{f"last_{column}": last.get(name) for name, column in metrics.items()},
        "seconds": math.fsum(row.seconds for row in trial.epochs.values()),
        **mean_costs((row.seconds, row.costs) for row in trial.epochs.values()),
        "pc": trial.place.get("pc"),
        "pid": trial.place.get("pid"),
        "gpu": trial.place.get("gpu"),
        "start": _moment(trial.start),
        "end": None if trial.end is None else _moment(trial.end),
        "seed": trial.seed,
        "confirms": trial.confirms,
        "origin": trial.origin,
    }


def _metric_names(record: Record) -> dict[str, str]:
    """Logged name to column, also of a record without an epoch; a metric called like a column of ours
    gets `_logged` behind it."""
    logged = (name for trial in record.trials for row in trial.epochs.values() for name in row.metrics)
    names = dict.fromkeys([record.info.metric, *logged])
    ours = {"id", "epoch", "seconds", "time", *COSTS}
    return {name: f"{name}_logged" if name in ours else name for name in names}


def _type_of(values: Iterable[Any]) -> pa.DataType:
    """The narrowest Arrow type that holds all values."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.null()
    if kinds <= {bool}:
        return pa.bool_()
    if kinds <= {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
