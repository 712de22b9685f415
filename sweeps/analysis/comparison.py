"""Sweeps side by side: a row of each, from its record."""

from __future__ import annotations

import io
import math
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from sweeps.common.cli import json_output, terminal
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, encodable, short, shown_path
from sweeps.config.sweep_folder import no_sweep
from sweeps.kinds.registry import shown_name
from sweeps.record import status as record_status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.trials import Status

WIDTH_OF_NOTE = 40
"""Characters of a note that are printed."""
_PARENT = pa.struct([("name", pa.string()), ("folder", pa.string()), ("started", pa.float64())])
_OF_FRONT = pa.struct([("trial", pa.int64()), ("values", pa.list_(pa.float64()))])
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
        ("objectives", pa.list_(pa.string())),
        ("best_trial", pa.int64()),
        ("best_score", pa.float64()),
        ("confirmed_score", pa.float64()),
        ("front", pa.list_(_OF_FRONT)),
        ("test_score", pa.float64()),
        ("epochs", pa.int64()),
        ("trained_hours", pa.float64()),
        ("elapsed_hours", pa.float64()),
        ("parents", pa.list_(_PARENT)),
        ("note", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)


def show(folders: Sequence[Path]) -> int:
    """Print all sweeps, oldest first, and a line for each folder that is none; the exit status.

    Raises:
        UserError: no folder holds a sweep.
    """
    rows = table(_read(folders))
    if not rows.num_rows:
        named = f"{shown_path(folders[0])}{' and the other folders' if len(folders) > 1 else ''}"
        raise UserError(f"no sweep in {named}: give folders of sweeps, as in {command('results')} results/*")
    rows = rows.take(pc.sort_indices(rows["date"]))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(printed(rows, width))
    json_output.answer(sweeps=rows.to_pylist())
    return 0


def _read(folders: Sequence[Path]) -> Iterator[Record]:
    """The records there are, one in memory at a time."""
    for folder in folders:
        try:
            yield Record.read(folder)
        except (OSError, RecordUnreadable) as error:
            print(no_sweep(folder) or error, file=sys.stderr)


def table(records: Iterable[Record]) -> pa.Table:
    """A row per sweep, in the order given.

    Columns: name, folder, date (when it began, UTC), trainable, status (running, paused, finished, out of
    time or interrupted), trials (of the search, without reruns), how many of them are finished, pruned,
    stopped by the user, failed, diverged and unfinished, metric, mode, objectives (as `val_acc:max`; metric
    and mode are those of the first one), best_trial and best_score (of all trials, unfinished ones too; of
    several objectives the knee of the front, and the first one's), confirmed_score (of that trial, the mean
    over its reruns with new seeds), front (of several objectives: trials and their values, the knee first),
    test_score (of the best trial, that metric on the test rows), epochs (trained, reruns' too), trained_hours
    (of all trials and reruns together), elapsed_hours (of the sweep, all its runs together), parents (sweeps
    that it refines: name, folder, started), note and tags (of the user). What is not known is null.
    """
    return pa.Table.from_pylist([_encodable(_row(record)) for record in records], schema=_SCHEMA)


def _encodable(value: Any) -> Any:
    """A value whose texts UTF-8 can hold: names of files may be none."""
    if isinstance(value, dict):
        return {name: _encodable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [*map(_encodable, value)]
    return encodable(value) if isinstance(value, str) else value


def _row(record: Record) -> dict[str, Any]:
    info, best, test = record.info, record.best(), record.test_of_best()
    confirmed = record.confirmed_with_score().get(best.number) if best else None
    front = record.front_values() if record.objectives.are_several else {}
    counts = Counter(trial.status for trial in record.searched)
    return {
        "name": record.name,
        "folder": str(record.folder),
        "date": None if info.started is None else datetime.fromtimestamp(info.started, UTC),
        "trainable": ", ".join(info.trainables) or None,
        "status": record_status.status(record),
        "trials": len(record.searched),
        **{status: counts[status] for status in get_args(Status)},
        "metric": info.objective.metric,
        "mode": info.objective.mode,
        "objectives": [f"{each.metric}:{each.mode}" for each in record.objectives.every],
        "best_trial": best.number if best else None,
        "best_score": best.best_score(record.objective) if best else None,
        "confirmed_score": confirmed.mean if confirmed else None,
        "front": [{"trial": n, "values": v} for n, v in front.items()] if front else None,
        "test_score": test.score(info.objective.metric) if test else None,
        "epochs": sum(trial.spent_epochs for trial in record.trials),
        "trained_hours": math.fsum(trial.spent_seconds for trial in record.trials) / 3600,
        "elapsed_hours": record.elapsed_s / 3600,
        "parents": [vars(parent) for parent in info.parents],
        "note": info.note or None,
        "tags": [*info.tags],
    }


def printed(sweeps: pa.Table, width: int | None) -> str:
    """The rows of `table` for people: a line for each sweep, or two where the screen, which has so many
    characters, is too narrow for that; None: a file, which has room for all."""
    rows = [_cells(row) for row in sweeps.to_pylist()]
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = _aligned(rows, used)
    if width is None or max(map(len, lines)) <= width:
        return "\n".join(lines)
    names = [row["name"] + (row["parent"] and f" (from {row['parent']})") for row in rows]
    rest = _aligned(rows, [name for name in used if name not in ("name", "parent")])
    return "\n".join(f"{name}\n  {line}" for name, line in zip(["name", *names], rest, strict=True))


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    best = "none" if row["best_score"] is None else f"{row['metric']} {short(row['best_score'])}"
    if row["front"]:
        names = [name.rpartition(":")[0] for name in row["objectives"]]
        knee = zip(names, row["front"][0]["values"], strict=True)
        best = ", ".join(f"{name} {short(value)}" for name, value in knee)
        best += f" (knee of {len(row['front'])})"
    elif row["confirmed_score"] is not None:
        best = f"{row['metric']} {short(row['confirmed_score'])} (mean)"
    return {
        "name": row["name"],
        "date": row["date"].astimezone().strftime("%Y-%m-%d %H:%M") if row["date"] else "",
        "trainable": shown_name(row["trainable"] or ""),
        "status": row["status"],
        "trials": str(row["trials"]),
        "best": best,
        "hours": f"{row['elapsed_hours']:.2f}",
        "parent": ", ".join(parent["name"] for parent in row["parents"]),
        "tags": ", ".join(row["tags"]),
        "note": textwrap.shorten(row["note"] or "", WIDTH_OF_NOTE, placeholder=" ..."),
    }


def _aligned(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[str]:
    """The header and a line per row, however long: nothing is cut."""
    aligned = terminal.plain_table(*names)
    for column in aligned.columns:
        column.justify = "right" if column.header in ("trials", "hours") else "left"
    for row in rows:
        aligned.add_row(*(row[name] for name in names))
    page = terminal.Screen(file=io.StringIO(), width=10**6, color_system=None)
    with page.capture() as capture:
        page.print(aligned)
    return [line.rstrip() for line in capture.get().splitlines()]
