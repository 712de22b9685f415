"""Records of sweeps that other processes may be writing, kept up to date by what their files grow by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sweeps.config.sweep_folder import JOURNAL, sweeps_in
from sweeps.record import lock
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record

MOST_RECORDS = 8
"""In memory at once: one of 10,000 trials takes 130 MB."""
_Seen = tuple[int, int, int, bool]


class LiveRecord:
    """The record of a sweep. It is read anew only where its file was cut, replaced or damaged.

    Args:
        folder: of the sweep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: _Seen | None = None
        self._version = 0
        self._found: Record | FileNotFoundError | RecordUnreadable | None = None
        """As of a version."""
        self._version_found = 0

    @property
    def version(self) -> int:
        """A number that has changed where the file has, or where a process has begun or ended to run the
        sweep. It costs a look at two files."""
        seen = self._look()
        if seen != self._seen or not self._version:
            self._seen, self._version = seen, self._version + 1
        return self._version

    def read(self) -> Record:
        """The record as it is now. It is one object, which the next call changes: for one thread.

        Raises:
            FileNotFoundError, RecordUnreadable: as `Record.read`.
        """
        version = self.version
        if self._version_found != version:
            before, self._found = self._found, None
            try:
                self._found = _read_on(self.folder, before if isinstance(before, Record) else None)
            except (FileNotFoundError, RecordUnreadable) as error:
                self._found = error
            self._version_found = version
        if isinstance(self._found, Record):
            return self._found
        assert self._found is not None
        raise self._found

    def forget(self) -> None:
        """Free the memory of the record: the next call reads it anew."""
        self._found, self._version_found = None, 0

    def _look(self) -> _Seen | None:
        try:
            found = (self.folder / JOURNAL).stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, lock.is_held(self.folder)


def _read_on(folder: Path, before: Record | None) -> Record:
    try:
        if before is not None and before.is_intact():
            before.read_on()
            return before
    except OSError:  # it was deleted or damaged, which is told as of any other
        pass
    return Record.read(folder)


class LiveRecords:
    """The records of all sweeps in some folders.

    Args:
        folders: of a sweep each, or of several.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = [folder.absolute() for folder in folders]
        self._live: dict[Path, LiveRecord] = {}
        self._in_memory: dict[Path, LiveRecord] = {}
        """The one that was asked for last is the last one."""

    def versions(self) -> dict[Path, int]:
        """The folder of each sweep that is there now, and the version of its record. None is read."""
        self._live = {folder: self._live.get(folder) or LiveRecord(folder) for folder in self._found()}
        self._in_memory = {folder: live for folder, live in self._in_memory.items() if folder in self._live}
        return {folder: live.version for folder, live in self._live.items()}

    def read(self, folder: Path) -> Record:
        """The record of a sweep, as `LiveRecord.read`. The last ones that were asked for stay in memory."""
        folder = folder.absolute()
        live = self._live.setdefault(folder, LiveRecord(folder))
        self._in_memory.pop(folder, None)
        for oldest in list(self._in_memory)[: 1 - MOST_RECORDS]:
            self._in_memory.pop(oldest).forget()
        self._in_memory[folder] = live
        return live.read()

    def _found(self) -> Iterator[Path]:
        for folder in self._folders:
            if (folder / JOURNAL).is_file():
                yield folder
            yield from map(Path, sweeps_in(folder))
