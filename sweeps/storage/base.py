"""What every store of checkpoints can do."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

DISK_IS_FULL = "the disk is full"


Fill = Callable[[Path], None]
"""Writes the files of a checkpoint into the folder that it is given."""


Params = Mapping[str, Any]


class StorageError(OSError):
    """The storage is at fault, not the trial: its reason, for the record and the screen."""


class Storage(Protocol):
    """The checkpoints of one sweep. All of it raises StorageError when the storage does not answer."""

    @property
    def where(self) -> str:
        """The place, in words."""

    def write(self, number: int, epoch: int, fill: Fill, of: Params, *, is_last: bool = False) -> None:
        """Write a checkpoint of a trial, whole or not at all; drop its older ones.

        Args:
            number: of the trial.
            epoch: the last epoch that was trained, 1-based.
            fill: writes its files; what it raises is the trial's own error.
            of: params of the trial; one with others never goes on from it.
            is_last: no later one makes up for it.
        """

    def newest(self, number: int, of: Params | None = None) -> tuple[Path | None, list[str]]:
        """The newest whole checkpoint of a trial as a folder of this PC (until the next call), and what is
        wrong with those that are newer."""

    def look(self, number: int, of: Params, at_most: float = math.inf) -> tuple[int | None, list[str]]:
        """As `newest`, the epoch alone. Behind a network nothing is read, so nothing found broken."""

    def epochs(self, number: int) -> list[int]:
        """Epochs of the checkpoints of a trial, newest first."""

    def numbers(self) -> list[int]:
        """Trials that have checkpoints."""

    def remove(self, number: int, epoch: int | None = None) -> None:
        """Remove a checkpoint, or all of a trial."""

    def tidy(self) -> None:
        """Remove what writers and removers that were killed have left."""

    def make(self) -> None:
        """Make the place."""

    def write_note(self, name: str, text: str) -> None:
        """Write a small file, for a proof."""

    def read_note(self, name: str) -> str:
        """What is in it."""

    def remove_note(self, name: str) -> None:
        """Remove it."""


def numbers_in(names: Any) -> list[int]:
    """Numbers of the trials whose folders have these names."""
    found = (re.fullmatch(r"trial_(\d+)", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def new_name() -> str:
    """Of a small file that no one else writes."""
    return f".proof.{uuid.uuid4().hex}"
