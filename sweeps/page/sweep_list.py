"""The sweeps of the folders that a page shows, as of the last look at their journals."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.common import local_dirs
from sweeps.config.sweep_folder import JOURNAL, sweeps_in
from sweeps.page.sweep_summary import SummaryCache, SweepState, SweepSummary, summary_of
from sweeps.record import lock
from sweeps.record.journal import RecordUnreadable
from sweeps.record.live_record import LiveRecords
from sweeps.record.record import Record

LOOK_EVERY_S = 1.0
"""While somebody looks. Nobody looks: no look."""
NOT_READ = SweepState()
READS_S = 0.5
"""Of a look, in which it reads records; the next look goes on. The page is there meanwhile."""


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
    def version(self) -> str:
        """Another one once something of it has changed."""
        return "-".join(f"{number:x}" for number in (*self.state, self.summary is not None))

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
    in the folders has a key.

    Args:
        folders: of sweeps, or sweeps themselves.
        cache_file: of summaries, by default that of the user.
    """

    def __init__(self, folders: Sequence[Path], cache_file: Path | None = None) -> None:
        self.folders = list(dict.fromkeys(folder.resolve() for folder in folders))
        self.sweeps: Mapping[str, ListedSweep] = {}
        """As of the last look, the newest first."""
        self._cache = SummaryCache(cache_file or local_dirs.cache_dir() / "page" / "summaries.json")
        self._records = LiveRecords()
        self._is_looking = threading.Lock()
        self._looked = -LOOK_EVERY_S

    @property
    def version(self) -> str:
        """Another one once any sweep has changed."""
        words = "".join(f"{each.key} {each.version}\n" for each in self.sweeps.values())
        return hashlib.sha256(words.encode(errors="backslashreplace")).hexdigest()[:16]

    def version_of(self, key: str) -> str:
        """That of one sweep; "" where it is gone."""
        return self.sweeps[key].version if key in self.sweeps else ""

    def look(self) -> None:
        """Look at all journals, unless another thread has just done so; read what has changed."""
        with self._is_looking:
            if time.monotonic() < self._looked + LOOK_EVERY_S / 2:
                return
            reads_until = time.monotonic() + READS_S
            found = [self._looked_at(folder, reads_until) for folder in self._found()]
            names = Counter(each.key for each in found)
            found = [
                dataclasses.replace(each, key=_key_beside(each.folder)) if names[each.key] > 1 else each
                for each in sorted(found, key=_newest_first)
            ]
            self.sweeps = {each.key: each for each in found}
            with contextlib.suppress(OSError):  # a full disk: the next start reads the records again
                self._cache.save()
            self._looked = time.monotonic()

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

    def _found(self) -> Iterator[Path]:
        for folder in self.folders:
            if (folder / JOURNAL).is_file():
                yield folder
            else:
                yield from map(Path, sweeps_in(folder))

    def _looked_at(self, folder: Path, reads_until: float) -> ListedSweep:
        summary, fault, state = None, "", NOT_READ
        try:
            state = _state_of(folder)
            summary = self._cache.get(folder, state)
            if summary is None and (time.monotonic() < reads_until or self._records.holds(folder)):
                summary = summary_of(self._records.read(folder))
                self._cache.put(folder, state, summary)
        except (OSError, RecordUnreadable) as error:
            fault = str(error)
        except Exception as error:  # a fault in one record costs its row, not the page
            fault = f"its record can't be shown ({type(error).__name__}: {error})"
        return ListedSweep(
            key=encodable(folder.name), folder=folder, state=state, summary=summary, fault=fault
        )


def encodable(text: str) -> str:
    """A text as UTF-8 can hold it: names of files, and what programs report, may be none."""
    return text.encode(errors="backslashreplace").decode()


def _state_of(folder: Path) -> SweepState:
    stat = (folder / JOURNAL).stat()
    return SweepState(stat.st_mtime_ns, stat.st_size, lock.is_held(folder))


def _key_beside(folder: Path) -> str:
    return f"{encodable(folder.name)}~{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


def _newest_first(sweep: ListedSweep) -> tuple[bool, float, str]:
    started = sweep.summary.started if sweep.summary is not None else None
    return not sweep.state.is_held, -(started or sweep.state[0] / 1e9), sweep.key
