"""The sweeps of the folders that a page shows, as of the last look at their journals."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sweeps.common.formatting import encodable
from sweeps.config.sweep_folder import JOURNAL, sweeps_in
from sweeps.page.sweep_summary import SweepState, SweepSummary, summary_of
from sweeps.record import lock
from sweeps.record.journal import RecordUnreadable
from sweeps.record.live_record import LiveRecords
from sweeps.record.record import Record

LOOKS_AGAIN_S = 0.5
"""After a look another page may look anew. Nobody looks: no look."""
NOT_READ = SweepState()
READS_S = 0.5
"""Of a look, in which it begins to read records; the next look goes on."""


@dataclass(frozen=True, kw_only=True)
class ListedSweep:
    """A sweep of the list."""

    key: str
    """What names it in addresses of the page: its folder's name, and more where two have one name."""
    folder: Path
    state: SweepState = NOT_READ
    summary: SweepSummary | None = None
    """None before its record was read, or where it can't be read."""
    fault: str = ""
    """Why it can't be read."""

    @property
    def path(self) -> str:
        """The address of its page."""
        return path_of(self.key)

    @property
    def version(self) -> str:
        """Another one once something of it has changed."""
        return "-".join(f"{number:x}" for number in (*self.state, self.is_read))

    @property
    def is_read(self) -> bool:
        """Whether its record was read, or can't be read."""
        return self.summary is not None or bool(self.fault)

    @property
    def status(self) -> str:
        """In the words of the record; `unreadable` of a damaged one, `being read` at the start."""
        if self.summary is None:
            return "unreadable" if self.fault else "being read"
        return self.summary.status

    @property
    def name(self) -> str:
        """Of the sweep."""
        return self.folder.name if self.summary is None else self.summary.name


class SweepList:
    """The sweeps that a page shows, by their keys. No path of a request is ever opened: only what was found
    in the folders, which are of sweeps or sweeps themselves, has a key. It is for one thread.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = list(dict.fromkeys(folder.resolve() for folder in folders))
        self.sweeps: Mapping[str, ListedSweep] = {}
        """As of the last look, the newest first."""
        self._records = LiveRecords()
        self._looked = -LOOKS_AGAIN_S
        self._failures = Counter[Path]()
        """How often a record could not be read. The others come first: that may take long."""

    @property
    def version(self) -> str:
        """Another one once any sweep has changed."""
        words = "".join(f"{each.key} {each.version}\n" for each in self.sweeps.values())
        return _digest(words.encode(errors="backslashreplace"), 16)

    def look(self) -> None:
        """Look at all journals, unless a page has just done so, and read what has changed, for a time."""
        if time.monotonic() >= self._looked + LOOKS_AGAIN_S:
            self.read_on()
            self._looked = time.monotonic()

    def read_on(self, reads_s: float = READS_S) -> bool:
        """Look at all journals, and read what has changed, for a time; whether some of it is left to read.

        Args:
            reads_s: in which it begins to read a record, those of the newest sweeps first.
        """
        known = {each.folder: each for each in self.sweeps.values()}
        rows, unread = dict[Path, ListedSweep](), list[ListedSweep]()
        for folder, key in self._keys().items():
            row = rows[folder] = self._looked_at(folder, key, known.get(folder))
            if not row.is_read:
                unread.append(row)
                if folder in known:  # it has changed: its row stays as it was until its record is read
                    rows[folder] = dataclasses.replace(known[folder], key=key)
        self._show(rows)
        reads_until, left = time.monotonic() + reads_s, 0
        for row in sorted(unread, key=lambda row: (self._failures[row.folder], *_newest_first(row))):
            if time.monotonic() < reads_until or self._records.holds(row.folder):
                rows[row.folder] = self._read(row)
            else:
                left += not self._failures[row.folder]
        self._show(rows)
        return left > 0

    def key_of(self, folder: Path) -> str | None:
        """The key of a sweep; None where it is not in the folders."""
        return self._keys().get(folder)

    def is_any_running(self) -> bool:
        """Whether a process runs one of them, now; no record is read."""
        return any(lock.is_held(folder) for folder in self._found())

    def record(self, key: str) -> Record:
        """The record of a sweep, as of now.

        Raises:
            KeyError: there is no such sweep.
            OSError: its folder is gone.
            RecordUnreadable: it is damaged.
        """
        return self._records.read(self.sweeps[key].folder)

    def holds(self, key: str) -> bool:
        """Whether the record of a sweep is in memory."""
        return key in self.sweeps and self._records.holds(self.sweeps[key].folder)

    def _found(self) -> Iterator[Path]:
        return itertools.chain.from_iterable(map(sweeps_in, self.folders))

    def _keys(self) -> dict[Path, str]:
        """Each sweep with its key."""
        names = {folder: encodable(folder.name) for folder in self._found()}
        times = Counter(names.values())
        return {
            folder: name if times[name] == 1 else f"{name}~{_digest(os.fsencode(folder), 8)}"
            for folder, name in names.items()
        }

    def _looked_at(self, folder: Path, key: str, known: ListedSweep | None) -> ListedSweep:
        try:
            state = _state_of(folder)
        except OSError as error:
            return ListedSweep(key=key, folder=folder, fault=str(error))
        if known is not None and known.state == state:
            return dataclasses.replace(known, key=key)
        return ListedSweep(key=key, folder=folder, state=state)

    def _read(self, row: ListedSweep) -> ListedSweep:
        try:
            # One that has ended is read for its row once, one that runs again and again.
            summary = summary_of(self._records.read(row.folder, displaces=row.state.is_held))
        except OSError as error:  # a share, say, that did not answer: the next look reads it again
            self._failures[row.folder] += 1
            return dataclasses.replace(row, state=NOT_READ, fault=str(error))
        except RecordUnreadable as error:
            return dataclasses.replace(row, fault=str(error))
        except Exception as error:  # a fault in one record costs its row, not the page
            why = f"its record can't be shown ({type(error).__name__}: {error})"
            return dataclasses.replace(row, fault=why)
        self._failures.pop(row.folder, None)
        return dataclasses.replace(row, summary=summary)

    def _show(self, rows: Mapping[Path, ListedSweep]) -> None:
        self.sweeps = {each.key: each for each in sorted(rows.values(), key=_newest_first)}


def path_of(key: str) -> str:
    """The address of a sweep's page."""
    return f"/sweep/{quote(key, safe='')}"


def _state_of(folder: Path) -> SweepState:
    stat = (folder / JOURNAL).stat()
    return SweepState(stat.st_mtime_ns, stat.st_size, lock.is_held(folder))


def _digest(content: bytes, characters: int) -> str:
    return hashlib.sha256(content).hexdigest()[:characters]


def _newest_first(sweep: ListedSweep) -> tuple[bool, float, str]:
    started = sweep.summary.started if sweep.summary is not None else None
    return not sweep.state.is_held, -(started or sweep.state[0] / 1e9), sweep.key
