"""A Run: one training, whatever trains it, that is advanced a report at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, TypeVar

from sweeps.training.checkpoints.progress import Progress
from sweeps.training.config import FitConfig
from sweeps.training.micro_batches import MicroBatch
from sweeps.training.report import Position, Report

_Answer = TypeVar("_Answer")


class Run(Protocol):
    """A training that is advanced a report at a time, and can be left and continued."""

    @property
    def why_no_test(self) -> str:
        """Why the model can't be scored on test rows; "" where it can."""

    @property
    def checkpoint_bytes(self) -> int:
        """About what `save` writes; 0 where that is not known."""

    @property
    def can_go_on(self) -> bool:
        """Whether it can be advanced; not after a `save` that only some workers have done."""

    @property
    def can_be_saved(self) -> bool:
        """Whether `save` can be called after the last report."""

    def advance(self) -> Report | Position | None:
        """Train to the end of the next epoch, or to the position inside it where the run is left; None where
        the training has ended."""

    def save(self, folder: Path) -> None:
        """Write into a folder what continues it."""

    def close(self) -> None:
        """Let the training end in order, then `release` it."""

    def release(self) -> None:
        """Drop the training as it is. It can't be saved after it."""


class RunHere(Run, Protocol):
    """A Run that trains in this process, alone or as one of several workers."""

    @property
    def params(self) -> Any:
        """The hyperparameters."""

    @property
    def config(self) -> FitConfig:
        """How it is trained."""

    @property
    def progress(self) -> Progress:
        """How far it has come."""

    @property
    def depends_on_batch(self) -> bool:
        """Whether the model normalizes by the rows of a batch, so that smaller ones change its result."""

    @property
    def strategy_in_words(self) -> str:
        """Strategy, precision and threads; "" where it has none."""

    @property
    def best_bytes(self) -> int:
        """Size of the weights that `keep_best` writes; 0 where that is not known."""

    def smaller_batch(self) -> MicroBatch:
        """The split of the batch to go on with, after this training ran out of memory.

        Raises:
            CannotTrain: no smaller part of the batch would do; the text says why.
        """

    def agree(self, answer: _Answer) -> _Answer:
        """The first worker's answer, on all workers."""

    def keep_best(self, folder: Path, about: str, newest: Path | None) -> bool:
        """Write a new folder of what was best and of params.yaml, atomically; whether there is anything.

        Args:
            folder: to write.
            about: the text of params.yaml.
            newest: the newest checkpoint that was written; None: there is none.
        """
