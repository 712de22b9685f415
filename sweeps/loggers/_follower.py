"""Threads that keep the loggers up to date with the record of a sweep.

A logger writes what the record holds and it lacks, also after a resume, and nothing twice. Its errors are
printed, and never end the sweep.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from optuna.storages import JournalStorage

from sweeps.common.errors import reason_of
from sweeps.config import plugins
from sweeps.config.sweep_folder import JOURNAL
from sweeps.loggers import NotWritten, RunWriter
from sweeps.record.journal import ReadOnlyJournal
from sweeps.record.record import Record
from sweeps.record.trials import row_of


@dataclass(frozen=True)
class Intervals:
    """How often a logger is updated, in seconds."""

    every_s: float = 1.0
    retry_s: float = 60.0
    """After an error."""
    end_s: float = 60.0
    """For the last update when the sweep has ended: a server may not answer."""


@contextlib.contextmanager
def following(
    names: Iterable[str], folder: Path, record: Record, intervals: Intervals = Intervals()
) -> Iterator[None]:
    """Update the loggers of a sweep while a block runs, and once more at its end."""
    threads = [_Follower(name, folder, record, intervals) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.end()


def catch_up(names: Iterable[str], folder: Path, record: Record) -> None:
    """Write what the loggers lack of a sweep that has ended."""
    with following(names, folder, record):
        pass


class _Follower(threading.Thread):
    """Keeps one logger up to date."""

    def __init__(self, name: str, folder: Path, record: Record, intervals: Intervals) -> None:
        super().__init__(name=f"logger {name}", daemon=True)
        self._logger_name, self._folder, self._intervals = name, folder, intervals
        self._about = dict(record.about)
        self._logger: RunWriter | None = None
        self._storage: JournalStorage | None = None
        self._written: dict[int, tuple[int, str]] = {}
        self._ends = threading.Event()
        self._has_warned = False

    def run(self) -> None:
        """Update again and again, and once more when the sweep has ended."""
        while not self._ends.is_set():
            is_written = self._tried(is_on=True)
            self._ends.wait(self._intervals.every_s if is_written else self._intervals.retry_s)
        self._tried(is_on=False)
        self._close()

    def end(self) -> None:
        """Write the rest, now that the sweep has ended."""
        end_s = self._intervals.end_s
        self._ends.set()
        self.join(2 * self._intervals.every_s)
        if self.is_alive():
            print(f"Writing the last results to {self._logger_name}.", flush=True)
            self.join(end_s)
        if self.is_alive():
            print(f"--loggers {self._logger_name}: some results were not written in {end_s:g} s.", flush=True)

    def _tried(self, is_on: bool) -> bool:
        """Update; whether that succeeded."""
        try:
            self._update(is_on)
        except (Exception, SystemExit) as error:  # whatever it is, the sweep continues without this logger
            self._warn(str(error) if isinstance(error, NotWritten) else reason_of(error), is_on)
            self._close()
            return False
        return True

    def _close(self) -> None:
        """The next update begins with a new logger, which looks for what is there."""
        logger, self._logger = self._logger, None
        self._written.clear()
        if logger is not None:
            with contextlib.suppress(Exception):
                logger.close()

    def _update(self, is_on: bool) -> None:
        if self._storage is None:
            self._storage = JournalStorage(ReadOnlyJournal(self._folder / JOURNAL))
        if self._logger is None:
            self._logger = plugins.find("logger", self._logger_name).build(self._folder, self._about)
        (study,) = self._storage.get_all_studies()
        study_id = self._storage.get_study_id_from_name(study.study_name)
        for frozen in self._storage.get_all_trials(study_id, deepcopy=False):
            if self._written.get(frozen.number, (0, ""))[1] not in ("", "unfinished"):
                continue
            trial = row_of(frozen)
            state = (len(trial.epochs), trial.status)
            if not is_on or state != self._written.get(trial.number):
                self._logger.write(trial, is_on)
                self._written[trial.number] = state

    def _warn(self, reason: str, is_on: bool) -> None:
        """Once while the sweep runs, and at its end, if some results are missing then."""
        if is_on and self._has_warned:
            return
        self._has_warned = True
        then = f"The sweep continues; the logger retries every {self._intervals.retry_s:g} s."
        if not is_on:
            then = "Some results were not written."
        with contextlib.suppress(OSError):
            print(f"--loggers {self._logger_name}: {reason}. {then}", flush=True)
