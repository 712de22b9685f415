"""The tables and logs in the folder of a sweep.

`trials.parquet` and `epochs.parquet` are written while the sweep runs, and at its end. `logs/trial_0007.log`
holds what a trial printed on any PC, and the traceback of one that failed, `logs/trial_0007_attempt_2.log`
the same of its second attempt. A log is bounded: of a long one the beginning and the end stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sweeps.analysis import tables
from sweeps.common import atomic_io
from sweeps.config.sweep_folder import LOGS_FOLDER
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

TRIALS_FILE, EPOCHS_FILE = "trials.parquet", "epochs.parquet"
MOST_BYTES = 2**20
"""Size of a log at which its middle is left out."""
HEAD_BYTES = MOST_BYTES // 4


def write_tables(record: Record, folder: Path) -> str:
    """Write both tables as Parquet; why that failed, or "". The record has all of them."""
    of_file = {TRIALS_FILE: tables.trials_table(record), EPOCHS_FILE: tables.epochs_table(record)}
    try:
        for name, table in of_file.items():
            with atomic_io.atomic_write(folder / name) as part:
                pq.write_table(table, part)
    except OSError as error:
        return f"The tables can't be written: {error}"
    return ""


class TrialLogs:
    """Writes the logs of a sweep.

    Args:
        say: tells the user once that logs can't be written. Raised, Tune would take it for a lost process,
            and train the trial again.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._failed = False

    def path(self, trial: TrialRow) -> str | None:
        """The log of a trial, relative to the sweep's folder; None where there is none."""
        log = Path(LOGS_FOLDER) / f"{trial.name}.log"
        return str(log) if (self._folder / log).is_file() else None

    def note_place(self, trial: TrialRow, place: Mapping[str, Any], epoch: int | None) -> None:
        """Add that another process trains a trial, before what that process has printed.

        Args:
            trial: with the place where it trained before.
            place: where it trains now.
            epoch: the first one that this process has reported.
        """
        if not trial.place or trial.place == place:
            return
        begins = "" if epoch is None else f" from epoch {epoch}"
        self.append(trial, f"[process {place['pid']} on {place['pc']} goes on{begins}]\n")

    def append(self, trial: TrialRow, text: str) -> None:
        """Add what a trial has printed, or its traceback."""
        if not text:
            return
        file = self._folder / LOGS_FOLDER / f"{trial.name}.log"
        try:
            file.parent.mkdir(exist_ok=True)
            about = f"trainable {trial.trainable}\nparams {dict(trial.params)}\nplace {dict(trial.place)}\n\n"
            head = "" if file.exists() else about
            with file.open("a", encoding="utf-8", errors="backslashreplace") as log:
                log.write(head + text)
            if file.stat().st_size > MOST_BYTES:
                _shorten(file)
        except OSError as error:
            if not self._failed:
                self._say(f"The log of trial {trial.number} can't be written: {error}")
            self._failed = True


def _shorten(file: Path) -> None:
    """Leave out the middle of a log, up to half of its greatest size."""
    content = file.read_bytes()
    tail = content[-(MOST_BYTES // 2 - HEAD_BYTES) :]
    left_out = len(content) - HEAD_BYTES - len(tail)
    file.write_bytes(content[:HEAD_BYTES] + f"\n[{left_out:,} bytes are left out]\n".encode() + tail)
