"""What every checkpoint storage can do."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from sweeps.common.errors import CannotContinue

DISK_IS_FULL = "the disk is full"
Fill = Callable[[Path], None]
"""Writes the files of a checkpoint into the folder that it is given."""
Params = Mapping[str, Any]


class StorageError(CannotContinue, OSError):
    """The storage is at fault, not the trial. Its text is the reason, for the record and the screen."""


class Storage(Protocol):
    """The checkpoints of one sweep. Every method raises StorageError when the storage does not answer."""

    @property
    def where(self) -> str:
        """The place, for messages."""

    def write(self, number: int, epoch: int, fill: Fill, params: Params, *, is_last: bool = False) -> int:
        """Write a checkpoint of a trial, complete or not at all, and remove its older ones; its bytes.

        Args:
            number: of the trial.
            epoch: the last epoch that was trained, 1-based.
            fill: writes the files; what it raises is the trial's own error.
            params: hyperparameters of the trial; a trial with others never resumes from this checkpoint.
            is_last: whether no later checkpoint will follow.
        """

    def newest(self, number: int, params: Params | None = None) -> tuple[Path | None, list[str]]:
        """The newest intact checkpoint of a trial, as a folder of this PC that stays until the next call; and
        the faults of newer ones."""

    def forget_downloads(self) -> None:
        """Remove the copies that `newest` has made on this PC, once they have been read."""

    def epochs(self, number: int) -> list[int]:
        """Epochs of the checkpoints of a trial, newest first."""

    def numbers(self) -> list[int]:
        """Trials that have checkpoints."""

    def remove(self, number: int, epoch: int | None = None) -> None:
        """Remove a checkpoint, or all of a trial."""

    def tidy(self) -> None:
        """Remove what killed processes have left."""

    def make(self) -> None:
        """Make the folder of the sweep."""

    def write_note(self, name: str) -> None:
        """Write a small file that holds its name, to test the storage."""

    def read_note(self, name: str) -> str:
        """Its text."""

    def remove_note(self, name: str) -> None:
        """Remove it."""


def numbers_in(names: Iterable[str]) -> list[int]:
    """Numbers of the trials whose folders have these names."""
    found = (re.fullmatch(r"trial_(\d+)", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def new_name() -> str:
    """An unused name for a small file."""
    return f".proof.{uuid.uuid4().hex}"
