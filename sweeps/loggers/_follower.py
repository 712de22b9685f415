"""Loggers read the record, as the dashboard does: what it holds and they lack is written, also after a
resume, and nothing twice. They work in threads of their own, and their troubles cost a line, never the sweep.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from sweeps.common.errors import reason_of
from sweeps.config import plugins
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow, row_of

EVERY_S, AGAIN_S = 1.0, 60.0
"""Between looks at the record; the same after a trouble."""
AT_THE_END_S = 60.0
"""To write what is left when the sweep has ended: a server that does not answer must not hold it."""


class Logger(Protocol):
    """What `build(folder, about)` of a logger gives; `about` is the record's."""

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Write what is not there yet of a trial.

        Args:
            trial: as the record has it now.
            is_on: whether the sweep runs; else a trial that has not ended waits for a resume.
        """


@contextlib.contextmanager
def following(names: Iterable[str], folder: Path, record: Record) -> Iterator[None]:
    """Write to all loggers of a sweep while a block runs, and what is left then."""
    threads = [_Following(name, folder, record) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.end()


class _Following(threading.Thread):
    """Keeps one logger up to the record."""

    def __init__(self, name: str, folder: Path, record: Record) -> None:
        super().__init__(name=f"logger {name}", daemon=True)
        self._logger_name, self._folder = name, folder
        self._about, self._trainable = dict(record.about), record.info.trainable
        self._logger: Logger | None = None
        self._storage: Any = None
        self._written: dict[int, tuple[int, str]] = {}
        self._ends = threading.Event()
        self._is_in_trouble = False

    def run(self) -> None:
        """Look at the record again and again, and once more when the sweep has ended."""
        while True:
            ends = self._ends.is_set()
            try:
                self._catch_up(is_on=not ends)
                self._is_in_trouble = False
            except Exception as error:  # whatever it is, the sweep goes on without this logger
                self._say(reason_of(error), ends)
            if ends:
                return
            self._ends.wait(AGAIN_S if self._is_in_trouble else EVERY_S)

    def end(self) -> None:
        """The sweep has ended: write what is left."""
        self._ends.set()
        self.join(2 * EVERY_S)
        if self.is_alive():
            print(f"Writing what is left to {self._logger_name} ...", flush=True)
            self.join(AT_THE_END_S)
        if self.is_alive():
            print(f"--loggers {self._logger_name}: not all of it in {AT_THE_END_S:g} s", flush=True)

    def _catch_up(self, is_on: bool) -> None:
        if self._storage is None:
            from optuna.storages import JournalStorage

            from sweeps.record.journal_reader import ReadOnlyJournal

            self._storage = JournalStorage(ReadOnlyJournal(self._folder / JOURNAL))
        if self._logger is None:
            self._logger = plugins.find("logger", self._logger_name).build(self._folder, self._about)
        study_id = self._storage.get_all_studies()[0]._study_id
        for frozen in self._storage.get_all_trials(study_id, deepcopy=False):
            if self._written.get(frozen.number, (0, ""))[1] not in ("", "unfinished"):
                continue
            trial = row_of(frozen, self._trainable)
            state = (len(trial.epochs), trial.status)
            if not is_on or state != self._written.get(trial.number):
                self._logger.write(trial, is_on)
                self._written[trial.number] = state

    def _say(self, trouble: str, ends: bool) -> None:
        then = "not all was written" if ends else f"the sweep goes on; tried again every {AGAIN_S:g} s"
        if ends or not self._is_in_trouble:
            with contextlib.suppress(OSError):
                print(f"--loggers {self._logger_name}: {trouble} ({then})", flush=True)
        self._is_in_trouble = True
