"""Read a journal that another process writes."""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

END_BYTES = 4096
"""Of a file that is read on, compared: more than a few lines."""


class ReadOnlyJournal(JournalFileBackend):
    """The journal of a sweep that another process may be writing: what is whole of it, and nothing is added.

    Optuna's reader takes a torn last line for the end of the file, until its rest is there.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._seen = self._look(0)[1]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Refuse.

        Raises:
            PermissionError: always.
        """
        raise PermissionError(f"{self._path} is its sweep's alone to write")

    def goes_on(self) -> bool:
        """Whether the file is the one that was read so far, and has lost nothing of it.

        A resume cuts off a torn end; a new sweep may have the name of one that was deleted.
        """
        before = self._seen
        there, self._seen = self._look(before.size)
        return there == before

    def _look(self, size: int) -> tuple[_Seen, _Seen]:
        """The file as far as a size, and as far as it goes now."""
        with self._path.open("rb") as file:
            now = os.fstat(file.fileno())
            return _seen(file, now.st_ino, min(size, now.st_size)), _seen(file, now.st_ino, now.st_size)


@dataclass(frozen=True)
class _Seen:
    """A file up to a size."""

    inode: int
    size: int
    end: bytes
    """Its last bytes: a file that was cut may have grown past its old size since."""


def _seen(file: BinaryIO, inode: int, size: int) -> _Seen:
    file.seek(max(0, size - END_BYTES))
    return _Seen(inode, size, file.read(min(END_BYTES, size)))


class ForEyes(JournalStorage):
    """What a journal holds, to be looked at: why a trial ended badly comes before all else that is said of
    it, and reruns are left out, the best of which would pass for the best trial."""

    FIRST = ("reason", "log", "status")

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """As Optuna's, without reruns, and in another order of the attributes."""
        trials = super().get_all_trials(study_id, deepcopy, states)
        trials = [trial for trial in trials if "confirms" not in trial.user_attrs]
        for trial in trials:
            said = trial.user_attrs
            if said.get("reason") and next(iter(said)) != self.FIRST[0]:
                trial.user_attrs = {name: said[name] for name in (*self.FIRST, *said) if name in said}
        return trials
