"""The file under the record: Optuna's journal, a JSON line per change, written by one process.

What a dying driver can leave behind is mended here, before the next one writes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock


class RecordLost(Exception):
    """The record can't be written any more: what follows would not be remembered."""


class RecordUnreadable(ValueError):
    """The record is damaged, or of a format that this version does not know."""


class Journal(JournalFileBackend):
    """Optuna's journal file; a line that can't be written whole is taken back, and is the last one."""

    def __init__(self, file_path: str) -> None:
        self._guard = JournalFileSymlinkLock(file_path)
        super().__init__(file_path, lock_obj=self._guard)
        self._path = Path(file_path)
        self._lost: OSError | None = None
        self._is_together = False

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write lines as Optuna does, and sync them unless they are to be synced `together`."""
        self._refuse_if_lost()
        size = self._path.stat().st_size
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self._guard.acquire()
        try:
            with self._path.open("ab") as file:
                file.write(lines.encode())
                file.flush()
                if not self._is_together:
                    os.fsync(file.fileno())
        except OSError as error:
            self._lose(error, size)
        finally:
            self._guard.release()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Sync all lines of a block at its end, at once: an epoch is several lines, and waiting for the
        disk is most of what a line costs."""
        if self._is_together:
            yield
            return
        size, self._is_together = self._path.stat().st_size, True
        try:
            yield
        finally:
            self._is_together = False
            if self._lost is None and self._path.stat().st_size > size:
                self._sync(size)

    def _sync(self, size: int) -> None:
        try:
            with self._path.open("ab") as file:
                os.fsync(file.fileno())
        except OSError as error:
            self._lose(error, size)

    def _lose(self, error: OSError, size: int) -> None:
        self._lost = error
        with contextlib.suppress(OSError):
            os.truncate(self._path, size)
        self._refuse_if_lost()

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            why = self._lost.strerror or self._lost
            raise RecordLost(f"the record can't be written: {why} ({self._path})")


def open_study(path: Path, newest_format: int) -> tuple[Journal, JournalStorage, int]:
    """The journal of a record, what is in it, and the id of its study.

    A last line that is torn is left out: it may be being written.

    Args:
        path: of the file.
        newest_format: of a record, that this version knows.

    Raises:
        FileNotFoundError: there is none.
        RecordUnreadable: it is damaged, or of a newer version.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no sweep in {path.parent}: {path.name} is missing")
    try:
        storage = JournalStorage(journal := Journal(str(path)))
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        raise RecordUnreadable(f"{path}: {_damage(path) or f'damaged ({error})'}") from None
    studies = storage.get_all_studies()
    if not studies:
        raise FileNotFoundError(f"no sweep in {path.parent}: {path.name} is empty")
    about = studies[0].user_attrs
    if "mode" not in about:
        raise RecordUnreadable(f"{path}: an Optuna journal, but not the record of a sweep")
    if about.get("format", 0) > newest_format:
        raise RecordUnreadable(
            f"{path}: of a newer version of this program (format {about['format']}; "
            f"this one knows {newest_format}): upgrade it"
        )
    return journal, storage, storage.get_study_id_from_name(studies[0].study_name)


def _damage(path: Path) -> str:
    """What is wrong with the end of a record; "" when its lines are whole.

    Raises:
        RecordUnreadable: as `whole_bytes`.
    """
    torn = path.stat().st_size - whole_bytes(path)
    how = "the sweep's --resume cuts them off, and goes on"
    return f"its last {torn:,} bytes are damaged; {how}" if torn else ""


def mend(path: Path) -> int:
    """Cut off an end that is not whole, and remove a lock that nobody holds.

    The next line would be glued to a torn one, and no program could read on (optuna/optuna#5138); a
    lock that was left blocks 30 s (optuna/optuna#5921).

    Returns:
        Bytes cut off.

    Raises:
        RecordUnreadable: as `whole_bytes`.
    """
    whole, size = whole_bytes(path), path.stat().st_size
    if whole < size:
        os.truncate(path, whole)
    with contextlib.suppress(FileNotFoundError):
        Path(f"{path}.lock").unlink()
    return size - whole


def whole_bytes(path: Path) -> int:
    """The length of the part that reads: all, but for an end that was torn off or never reached the disk.

    Raises:
        RecordUnreadable: whole lines follow a damaged one; to cut there would lose them.
    """
    whole, position, damaged = 0, 0, 0
    with path.open("rb") as content:
        for number, line in enumerate(content, start=1):
            position += len(line)
            if not _is_whole(line):
                damaged = damaged or number
            elif damaged:
                raise RecordUnreadable(
                    f"{path}: line {damaged} is damaged, and whole lines follow it; "
                    "restore the file from a copy, or start a new sweep"
                )
            else:
                whole = position
    return whole


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line)["op_code"], int)
    except (ValueError, LookupError, TypeError):
        return False
