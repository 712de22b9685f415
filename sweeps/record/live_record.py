"""Records of sweeps that other processes may be writing, kept up to date by what their files grow by."""

from __future__ import annotations

from pathlib import Path

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record

MOST_BYTES = 200_000_000
"""Of the files of records that `LiveRecords` keeps; in memory they take three times as much. One of 10,000
trials has 50 MB."""


class LiveRecord:
    """The record of a sweep. It is read anew only where its file was cut, replaced or damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file_bytes = 0
        """Size of the file at the last `read`."""
        self._seen: tuple[int, int, int] | None = None
        self._found: Record | FileNotFoundError | RecordUnreadable | None = None

    @property
    def is_read(self) -> bool:
        """Whether it was read, and is not being read anew."""
        return self._found is not None

    def read(self) -> Record:
        """The record as it is now. It is one object, which the next call changes: for one thread.

        Raises:
            FileNotFoundError, RecordUnreadable: as `Record.read`.
        """
        seen = self._look()
        if self._found is None or seen != self._seen:
            before, self._found = self._found, None
            try:
                self._found = _read_on(self.folder, before if isinstance(before, Record) else None)
            except (FileNotFoundError, RecordUnreadable) as error:
                self._found = error
            self._seen = seen
        if not isinstance(self._found, Record):
            raise self._found.with_traceback(None)  # else it would grow with each call
        return self._found

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = (self.folder / JOURNAL).stat()
        except OSError:
            return None
        self.file_bytes = found.st_size
        return found.st_ino, found.st_size, found.st_mtime_ns


def _read_on(folder: Path, before: Record | None) -> Record:
    try:
        if before is not None and before.is_intact():
            before.read_on()
            return before
    except OSError:  # it was deleted, which is told as of any other
        pass
    return Record.read(folder)


class LiveRecords:
    """The records that were asked for last."""

    def __init__(self) -> None:
        self._live: dict[Path, LiveRecord] = {}
        """By folder, the one that was asked for last at the end."""

    def read(self, folder: Path, *, displaces: bool = True) -> Record:
        """The record of a sweep, as `LiveRecord.read`.

        Args:
            displaces: whether it is kept in place of those that were asked for before it, where there is no
                room for all; else those are kept.
        """
        self._live[folder] = live = self._live.pop(folder, None) or LiveRecord(folder)
        try:
            return live.read()
        finally:
            while len(self._live) > 1 and sum(each.file_bytes for each in self._live.values()) > MOST_BYTES:
                del self._live[next(iter(self._live if displaces else reversed(self._live)))]

    def holds(self, folder: Path) -> bool:
        """Whether the record of a sweep is in memory, so that it need not be read whole."""
        return folder in self._live and self._live[folder].is_read
