"""The file of the record: Optuna's journal, a JSON line per change, written by one process.

A sweep is one of Optuna's studies, which optuna-dashboard and other programs can read.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from optuna.distributions import distribution_to_json
from optuna.study import StudyDirection
from optuna.trial import TrialState

from sweeps.common.objective import Objectives
from sweeps.record.trials import ENDED_WELL, Status, TrialRow
from sweeps.space.point import OptunaPoint

STUDY_ID = 0
"""The journal of a sweep holds one study."""
_STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "stopped": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "diverged": TrialState.FAIL,
    "infeasible": TrialState.FAIL,
}


Line = Mapping[str, Any]
"""A change, as Optuna writes it."""


class Operation(IntEnum):
    """What a line changes: its `op_code`."""

    CREATE_STUDY = 0
    DELETE_STUDY = 1
    STUDY_USER_ATTR = 2
    STUDY_SYSTEM_ATTR = 3
    CREATE_TRIAL = 4
    TRIAL_PARAM = 5
    TRIAL_STATE = 6
    TRIAL_INTERMEDIATE_VALUE = 7
    TRIAL_USER_ATTR = 8
    TRIAL_SYSTEM_ATTR = 9
    DISCARD_TRIALS = 10


class RecordLost(Exception):
    """The record can't be written any more."""


class RecordUnreadable(ValueError):
    """The record is damaged, or another version has made it."""


class Journal:
    """The end of the file, to which lines are added as Optuna's storage would. Its lock is not taken: the
    sweep's own (`lock.py`) keeps other writers away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = secrets.token_hex(4)
        self._lost: OSError | None = None
        self._syncs = True

    def append(self, operation: Operation, **fields: Any) -> Line:
        """Write a line, and sync it, in a block of `together` at its end.

        Returns:
            The line, as a reader gets it.

        Raises:
            RecordLost: it can't be written, or one before it could not.
        """
        if self._lost is not None:
            self._lose(self._lost)
        line = json.dumps({"op_code": operation, "worker_id": self._writer, **fields}, separators=(",", ":"))
        self._write(f"{line}\n".encode())
        read: Line = _named_once(json.loads(line))
        return read

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Sync the lines of a block once, at its end: an epoch has several lines, and a sync is most of what
        a line costs."""
        if not self._syncs:
            yield
            return
        size, self._syncs = self._size(), False
        try:
            yield
        finally:
            self._syncs = True
            if self._lost is None and self._size() > size:
                self._write(b"", size)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError as error:
            self._lose(error)

    def _write(self, content: bytes, size: int | None = None) -> None:
        """Append, and sync; where that fails, cut the file back to a size in bytes, or to the one before."""
        try:
            with open(self._path, "ab", opener=_opened_to_append) as file:
                size = file.tell() if size is None else size
                file.write(content)
                file.flush()
                if self._syncs:
                    os.fsync(file.fileno())
        except OSError as error:
            if size is not None:
                with contextlib.suppress(OSError):
                    os.truncate(self._path, size)
            self._lose(error)

    def _lose(self, error: OSError) -> NoReturn:
        self._lost = error
        raise RecordLost(f"the record can't be written: {error.strerror or error} ({self._path})")


def _opened_to_append(path: str, flags: int) -> int:
    """A descriptor of a file that is there: where it was removed, a new one would have no beginning."""
    return os.open(path, flags & ~os.O_CREAT)


class UnwrittenJournal(Journal):
    """The same, to suppose what a sweep would come to: changes stay in this process."""

    def _write(self, content: bytes, size: int | None = None) -> None:
        """Write nothing."""


class JournalReader:
    """The lines of a journal that another process may be writing, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0
        """That were read."""
        self._position = 0
        """Bytes that were read."""
        self._tail = b""
        """The last of them."""

    def is_intact(self) -> bool:
        """Whether the file still begins with the part that was read: a new sweep may have the name of a
        deleted one, and an older copy may have been put in its place.

        Raises:
            OSError: the file can't be read.
        """
        with self._path.open("rb") as file:
            file.seek(self._position - len(self._tail))
            return file.read(len(self._tail)) == self._tail

    def unread(self) -> Iterator[Line]:
        """The whole lines that were not read before. An incomplete end is left: it may be in writing.

        Raises:
            FileNotFoundError: there is no such file.
            RecordUnreadable: whole lines follow a damaged one.
        """
        with self._path.open("rb") as file:
            file.seek(self._position)
            while lines := file.readlines(_BLOCK_BYTES):
                whole = _whole_lines(lines)
                yield from whole
                read = b"".join(lines[: len(whole)])
                self._lines += len(whole)
                self._position += len(read)
                self._tail = (self._tail + read[-_TAIL_BYTES:])[-_TAIL_BYTES:]
                if len(whole) < len(lines):
                    # One without its newline was in writing when it was read: what was written since may
                    # follow it here, the rest of that line first.
                    is_complete = lines[len(whole)].endswith(b"\n")
                    if is_complete and any(map(_is_whole, itertools.chain(lines[len(whole) :], file))):
                        raise RecordUnreadable(
                            f"{self._path}: line {self._lines + 1} is damaged, and intact lines follow it. "
                            "Restore the file from a copy, or start a new sweep"
                        )
                    return

    def cut(self) -> int:
        """Remove what follows the lines that were read, an incomplete end; its bytes. The next line would be
        joined to it, and make the file unreadable (optuna/optuna#5138)."""
        left = self._path.stat().st_size - self._position
        if left:
            os.truncate(self._path, self._position)
        return left


_BLOCK_BYTES = 4 << 20
_TAIL_BYTES = 4096
"""More than a few lines, each with the id of its process."""


def _whole_lines(lines: Sequence[bytes]) -> list[Line]:
    """The content of lines up to the first one that is not whole."""
    try:
        # All at once, so that they have one copy of each name.
        found = json.loads(b"[" + b",".join(lines) + b"]")
        if len(found) == len(lines) and lines[-1].endswith(b"\n") and all(map(_is_change, found)):
            return found if len(lines) >= _MANY_LINES else [_named_once(each) for each in found]
    except ValueError:
        pass
    return [_named_once(json.loads(line)) for line in itertools.takewhile(_is_whole, lines)]


_MANY_LINES = 100
"""From here on it does not matter that others have names of their own."""


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and _is_change(json.loads(line))
    except ValueError:
        return False


def _is_change(content: Any) -> bool:
    return type(content) is dict and type(content.get("op_code")) is int


def _named_once(content: Any) -> Any:
    """The same with the one copy of each name that this process has."""
    if not isinstance(content, dict):
        return content
    return {sys.intern(name): _named_once(value) for name, value in content.items()}


def study_fields(name: str, objectives: Objectives) -> dict[str, Any]:
    """The line of a new study, with a direction for each objective of a sweep."""
    directions = [StudyDirection[each.direction.upper()] for each in objectives.every]
    return {"study_name": name, "directions": directions}


def trial_fields(
    point: OptunaPoint,
    user_attrs: Mapping[str, Any],
    system_attrs: Mapping[str, Any] = MappingProxyType({}),
    scores: Mapping[int, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """The line of a new trial; dashboards do not show its system attributes."""
    return {
        "study_id": STUDY_ID,
        "datetime_start": _now(),
        "state": TrialState.RUNNING,
        "value": None,
        "values": None,
        "distributions": {name: distribution_to_json(each) for name, each in point.distributions.items()},
        "params": {name: point.distributions[name].to_internal_repr(v) for name, v in point.params.items()},
        "user_attrs": dict(user_attrs),
        "system_attrs": dict(system_attrs),
        "intermediate_values": dict(scores),
    }


def end_fields(state: TrialState, values: list[float] | None = None) -> dict[str, Any]:
    """The line of a trial's end."""
    return {"state": state, "values": values, "datetime_complete": _now()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


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
