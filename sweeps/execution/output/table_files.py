"""The tables of a sweep in its folder, as Parquet: while it runs, and at its end."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from sweeps.analysis import tables
from sweeps.common import atomic_io
from sweeps.record.record import Record

TRIALS_FILE, EPOCHS_FILE = "trials.parquet", "epochs.parquet"


def write_tables(record: Record, folder: Path) -> None:
    """Write both tables as Parquet."""
    of_file = {TRIALS_FILE: tables.trials_table(record), EPOCHS_FILE: tables.epochs_table(record)}
    for name, table in of_file.items():
        with atomic_io.atomic_write(folder / name) as part:
            pq.write_table(table, part)


def write_last(record: Record, folder: Path) -> str:
    """Write both tables of a sweep that has ended; why that failed, or "". The record has all of them."""
    try:
        write_tables(record, folder)
    except OSError as error:
        return f"The tables can't be written: {error}"
    return ""
