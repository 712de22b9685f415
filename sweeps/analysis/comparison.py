"""Sweeps side by side: a row of each, from its record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from sweeps.common.formatting import short
from sweeps.record import status as record_status
from sweeps.record.trials import Status

if TYPE_CHECKING:
    from sweeps.record.record import Record

_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("folder", pa.string()),
        ("date", pa.timestamp("ms", tz="UTC")),
        ("trainable", pa.string()),
        ("status", pa.string()),
        ("trials", pa.int64()),
        *((status, pa.int64()) for status in get_args(Status)),
        ("metric", pa.string()),
        ("mode", pa.string()),
        ("best_trial", pa.int64()),
        ("best_score", pa.float64()),
        ("confirmed_score", pa.float64()),
        ("test_score", pa.float64()),
        ("epochs", pa.int64()),
        ("trained_hours", pa.float64()),
        ("elapsed_hours", pa.float64()),
        (
            "parents",
            pa.list_(pa.struct([("name", pa.string()), ("folder", pa.string()), ("started", pa.float64())])),
        ),
    ]
)


def table(records: Iterable[Record]) -> pa.Table:
    """A row per sweep, in the order given.

    Columns: name, folder, date (when it began, UTC), trainable, status (running, finished, out of time,
    interrupted), trials (those searched: reruns are none), how many of them are finished, pruned,
    failed, diverged and unfinished, metric, mode, best_trial and best_score (of the trials that ended well),
    confirmed_score (of that trial, the mean over its reruns with new seeds), test_score (the same metric on
    the test rows), epochs (trained, reruns' too), trained_hours (of all trials and reruns together),
    elapsed_hours (of the sweep, all its runs together), parents (sweeps that it stands on: name, folder,
    started). What is not known is null.
    """
    return pa.Table.from_pylist([_row(record) for record in records], schema=_SCHEMA)


def _row(record: Record) -> dict[str, Any]:
    info, best = record.info, record.best()
    confirmed = [trial for trial in record.confirmed()[:1] if trial.scores]
    counts = Counter(trial.status for trial in record.searched)
    epochs = [row for trial in record.trials for row in trial.epochs.values()]
    return {
        "name": record.name,
        "folder": str(record.folder),
        "date": None if info.started is None else datetime.fromtimestamp(info.started, UTC),
        "trainable": ", ".join(info.trainables) or None,
        "status": record_status.status(record),
        "trials": len(record.searched),
        **{status: counts[status] for status in get_args(Status)},
        "metric": info.metric,
        "mode": info.objective.mode,
        "best_trial": best.number if best else None,
        "best_score": best.best_score(record.objective) if best else None,
        "confirmed_score": confirmed[0].mean if confirmed else None,
        "test_score": info.test_score,
        "epochs": len(epochs),
        "trained_hours": math.fsum(row.seconds for row in epochs) / 3600,
        "elapsed_hours": record.elapsed_s / 3600,
        "parents": [vars(parent) for parent in info.parents],
    }


def printed(sweeps: pa.Table, width: int | None) -> str:
    """The table for people: a line for each sweep, or two where the screen is too narrow for that.

    Args:
        sweeps: rows of `table`.
        width: characters of the screen; None: a file, which has room for all.
    """
    rows = [_cells(row) for row in sweeps.to_pylist()]
    rows = [dict(zip(_COLUMNS, _COLUMNS, strict=True)), *rows]
    used = [name for name in _COLUMNS if any(row[name] for row in rows[1:])]
    lines = _aligned(rows, used)
    if width is None or max(map(len, lines)) <= width:
        return "\n".join(lines)
    rest = _aligned(rows, [name for name in used if name not in ("name", "parent")])
    names = [row["name"] + (row["parent"] and f" (from {row['parent']})") for row in rows]
    return "\n".join(f"{name}\n  {line}" for name, line in zip(["name", *names[1:]], rest, strict=True))


_COLUMNS = ("name", "date", "trainable", "status", "trials", "best", "hours", "parent")
_NUMBERS = ("trials", "hours")


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells = (
        row["name"],
        row["date"].astimezone().strftime("%Y-%m-%d %H:%M") if row["date"] else "",
        row["trainable"] or "",
        row["status"],
        str(row["trials"]),
        _best(row),
        f"{row['elapsed_hours']:.2f}",
        ", ".join(parent["name"] for parent in row["parents"]),
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _best(row: Mapping[str, Any]) -> str:
    if row["confirmed_score"] is not None:
        return f"{row['metric']} {short(row['confirmed_score'])} (mean)"
    return "none" if row["best_score"] is None else f"{row['metric']} {short(row['best_score'])}"


def _aligned(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[str]:
    widths = {name: max(len(row[name]) for row in rows) for name in names}
    return [
        "  ".join(
            row[name].rjust(widths[name]) if name in _NUMBERS else row[name].ljust(widths[name])
            for name in names
        ).rstrip()
        for row in rows
    ]
