"""The file of the record: Optuna's journal, a JSON line per change, written by one process.

Damage that a killed driver leaves is repaired here before the next one writes. A sweep is one of Optuna's
studies, which optuna-dashboard and other programs can read.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
from collections.abc import Container, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sweeps.common.objective import Objectives
from sweeps.record import sweep_info
from sweeps.record.trials import ENDED_WELL, Status, TrialRow, numbered

_STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "stopped": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "diverged": TrialState.FAIL,
    "infeasible": TrialState.FAIL,
}


class RecordLost(Exception):
    """The record can't be written any more."""


class RecordUnreadable(ValueError):
    """The record is damaged, or another version has made it."""


class Journal(JournalFileBackend):
    """Optuna's journal file; an incomplete line is removed, and nothing is written after it. Optuna's lock is
    not taken: the sweep's own (`lock.py`) keeps other writers away."""

    def __init__(self, file_path: str) -> None:
        super().__init__(file_path)
        self._path = Path(file_path)
        self._lost: OSError | None = None
        self._syncs = True

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write lines as Optuna does, and sync them, in a block of `together` at its end."""
        self._refuse_if_lost()
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self._write(lines.encode(), self._path.stat().st_size)

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Lines as Optuna reads them. Optuna keeps all, so they have one copy of each name."""
        for log in super().read_logs(log_number_from):
            yield _named_once(log)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Sync the lines of a block once, at its end: an epoch has several lines, and a sync is most of what
        a line costs."""
        if not self._syncs:
            yield
            return
        size, self._syncs = self._path.stat().st_size, False
        try:
            yield
        finally:
            self._syncs = True
            if self._lost is None and self._path.stat().st_size > size:
                self._write(b"", size)

    def _write(self, content: bytes, size: int) -> None:
        """Append, and sync; where that fails, cut the file back to a size in bytes."""
        try:
            with self._path.open("ab") as file:
                file.write(content)
                file.flush()
                if self._syncs:
                    os.fsync(file.fileno())
        except OSError as error:
            self._lost = error
            with contextlib.suppress(OSError):
                os.truncate(self._path, size)
            self._refuse_if_lost()

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            why = self._lost.strerror or self._lost
            raise RecordLost(f"the record can't be written: {why} ({self._path})")


class UnwrittenJournal(Journal):
    """The same, to suppose what a sweep would come to: changes stay in this process."""

    def __init__(self, file_path: str) -> None:
        super().__init__(file_path)
        self._unread = list[dict[str, Any]]()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Keep lines as a file would hold them."""
        self._unread += json.loads(json.dumps(logs))

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Optuna reads the file first, and each change after it has made it."""
        if not log_number_from:
            yield from super().read_logs(0)
        unread, self._unread = self._unread, []
        yield from unread


def _named_once(content: Any) -> Any:
    """The same with the one copy of each name that this process has."""
    if not isinstance(content, dict):
        return content
    return {sys.intern(name): _named_once(value) for name, value in content.items()}


class ReadOnlyJournal(JournalFileBackend):
    """The journal of a sweep that another process may be writing.

    Optuna's reader takes an incomplete last line for the end of the file, until the rest is written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._seen = 0, b""
        """Where the last bytes begin that were read, and these."""
        self.is_intact()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise PermissionError(f"{self._path}: only its sweep writes it")

    def is_intact(self) -> bool:
        """Whether the file still begins with the part that was read.

        A resume cuts off an incomplete end; a new sweep may have the name of a deleted one.
        """
        begin, end = self._seen
        with self._path.open("rb") as file:
            file.seek(begin)
            is_same = file.read(len(end)) == end
            # More than a few lines, each with the id of its process.
            begin = max(0, file.seek(0, os.SEEK_END) - 4096)
            file.seek(begin)
            self._seen = begin, file.read()
        return is_same


class DashboardStorage(JournalStorage):
    """A journal for the dashboard, with the last attempt of each trial by its number, and without reruns: the
    best of them would look like the best trial."""

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        last_attempts = dict(numbered(super().get_all_trials(study_id, deepcopy)))
        found = [
            trial if trial.number == number else _with_number(trial, number)
            for number, trial in last_attempts.items()
            if "confirms" not in trial.user_attrs
        ]
        return [trial for trial in found if states is None or trial.state in states]


def _with_number(frozen: FrozenTrial, number: int) -> FrozenTrial:
    changed = copy.copy(frozen)  # Optuna has but one of each
    changed.number = number
    return changed


def open_study(path: Path, kind: type[Journal] = Journal) -> tuple[Journal, JournalStorage, int]:
    """The journal of a record, its storage, and the id of its study.

    An incomplete last line is left out: it may be in writing.

    Raises:
        FileNotFoundError: there is no record.
        RecordUnreadable: it is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no sweep in {path.parent}: {path.name} is missing")
    try:
        storage = JournalStorage(journal := kind(str(path)))
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        torn = path.stat().st_size - whole_bytes(path)
        remedy = "the sweep's --resume removes them and continues"
        damage = f"its last {torn:,} bytes are damaged; {remedy}" if torn else f"damaged ({error})"
        raise RecordUnreadable(f"{path}: {damage}") from None
    studies = storage.get_all_studies()
    if not studies:
        raise FileNotFoundError(f"no sweep in {path.parent}: {path.name} is empty")
    if "mode" not in studies[0].user_attrs:
        raise RecordUnreadable(f"{path}: this is an Optuna journal, but not the record of a sweep")
    return journal, storage, storage.get_study_id_from_name(studies[0].study_name)


def mend(path: Path) -> int:
    """Remove an incomplete last line; the bytes removed. The next one would be joined to it, and make the
    file unreadable (optuna/optuna#5138).

    Raises:
        RecordUnreadable: as `whole_bytes`.
    """
    whole, size = whole_bytes(path), path.stat().st_size
    if whole < size:
        os.truncate(path, whole)
    return size - whole


def whole_bytes(path: Path) -> int:
    """The length of the intact part: all but an incomplete end.

    Raises:
        RecordUnreadable: intact lines follow a damaged one; to cut there would lose them.
    """
    whole, position, damaged = 0, 0, 0
    with path.open("rb") as content:
        for number, line in enumerate(content, start=1):
            position += len(line)
            if not is_whole(line):
                damaged = damaged or number
            elif damaged:
                raise RecordUnreadable(
                    f"{path}: line {damaged} is damaged, and intact lines follow it. "
                    "Restore the file from a copy, or start a new sweep"
                )
            else:
                whole = position
    return whole


def is_whole(line: bytes) -> bool:
    """Whether a line of a journal is complete."""
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line)["op_code"], int)
    except (ValueError, LookupError, TypeError):
        return False


def create_study(storage: BaseStorage, name: str, about: Mapping[str, Any]) -> int:
    """A new study with a direction and a name for each objective of a sweep; its id."""
    objectives = sweep_info.parse(about).objectives
    study_id = storage.create_new_study(
        [StudyDirection[each.direction.upper()] for each in objectives.every], name
    )
    if "metric" in about:  # as `Study.set_metric_names`, which warns that it is experimental
        storage.set_study_system_attr(study_id, "study:metric_names", objectives.metrics)
    return study_id


def state_and_values(
    trial: TrialRow, status: Status, objectives: Objectives
) -> tuple[TrialState, list[float] | None]:
    """State and values of a trial that ends. As Optuna's own `tell`, a pruned one has those of its last
    epoch: the dashboard plots no trial without any."""
    values = None
    if status == "finished":
        values = trial.values(objectives)
    elif status in ENDED_WELL and trial.epochs:
        last = trial.epochs[max(trial.epochs)]
        values = objectives.values(last.score, last.metrics)
    return _STATES[status], None if values is None else list(values)
