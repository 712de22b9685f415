"""Read a journal that another process may be writing."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

END_BYTES = 4096
"""Compared at the end of the part that was read: more than a few lines."""
Seen = tuple[int, int, bytes]
"""A file up to a size: its inode, the size in bytes, its last bytes there."""


class ReadOnlyJournal(JournalFileBackend):
    """The journal of a sweep that another process may be writing.

    Optuna's reader takes an incomplete last line for the end of the file, until the rest is written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._seen = self._look(0)[1]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise PermissionError(f"{self._path}: only its sweep writes it")

    def is_intact(self) -> bool:
        """Whether the file still begins with the part that was read.

        A resume cuts off an incomplete end; a new sweep may have the name of a deleted one.
        """
        before = self._seen
        there, self._seen = self._look(before[1])
        return there == before

    def _look(self, size: int) -> tuple[Seen, Seen]:
        """The file up to a size, and all of it."""
        with self._path.open("rb") as file:
            now = os.fstat(file.fileno())

            def seen(end: int) -> Seen:
                file.seek(max(0, end - END_BYTES))
                return now.st_ino, end, file.read(min(END_BYTES, end))

            return seen(min(size, now.st_size)), seen(now.st_size)


class DashboardStorage(JournalStorage):
    """A journal for the dashboard: the reason of a failure is the first attribute of its trial, and reruns
    are left out, as the best of them would look like the best trial."""

    FIRST = ("reason", "log", "status")

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        trials = super().get_all_trials(study_id, deepcopy, states)
        trials = [trial for trial in trials if "confirms" not in trial.user_attrs]
        for trial in trials:
            given = trial.user_attrs
            if given.get("reason") and next(iter(given)) != self.FIRST[0]:
                trial.user_attrs = {name: given[name] for name in (*self.FIRST, *given) if name in given}
        return trials
