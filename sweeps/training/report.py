"""A run as the rest of the program has it: a training that is advanced a report at a time, and its reports.

A report is an epoch that has ended, or a position inside one where the run was left.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import count, shortest
from sweeps.training.config import FitConfig

if TYPE_CHECKING:
    from sweeps.training.batches import MicroBatch

REPORT = "report"
"""Key under which a result of Tune's has it, for the schedulers."""
ABOUT_FILE = "about.json"
"""Of a checkpoint's progress."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Report:
    """One trained and validated epoch."""

    epoch: int
    """1-based."""
    score: float
    """The metric that trials are compared by."""
    metrics: Mapping[str, float]
    """All metrics that the model logged."""
    seconds: float
    """Wall time of the epoch, training and validation."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Some of `time_breakdown.COSTS`; of first steps also `epoch_s`, the seconds of a whole epoch."""
    notice: str = ""
    """A warning for the user; mostly empty."""
    schedule: Mapping[str, Any] | None = None
    """Of the first epoch of a run what `trainer.length_of_schedules` knows."""

    @classmethod
    def from_metrics(
        cls,
        epoch: int,
        metric: str,
        metrics: Mapping[str, float],
        seconds: float = 0.0,
        costs: Mapping[str, float] = MappingProxyType({}),
        notice: str = "",
        schedule: Mapping[str, Any] | None = None,
    ) -> Report:
        """An epoch as it is reported. Here tensors of 32 bits become decimal numbers, without the digits that
        come of their rounding.

        Args:
            metrics: as Lightning has them; schedules that go by a metric need them to the last bit.
        """
        known = {name: shortest(value) for name, value in metrics.items()}
        return cls(epoch, known[metric], known, seconds, costs, notice, schedule)


@dataclass(frozen=True)
class Position:
    """Between two optimizer steps of an epoch."""

    epoch: int
    """1-based; it has not ended."""
    batch: int
    """Batches of it that were trained on, by each worker."""
    batches: int
    """Batches of the whole epoch."""

    def __str__(self) -> str:
        return f"epoch {self.epoch}, batch {self.batch} of {self.batches}"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training has come, and by which workers: what is known of a checkpoint without its model."""

    epochs: int = 0
    """That have ended."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the last one."""
    score: float = math.nan
    """Of the best one."""
    passes: int = 0
    """Over the training data that have ended, where an epoch is a part of one."""
    pass_batches: int = 0
    """That were read of it since."""
    schedule_from: int = 0
    """Epochs behind which the schedules of its learning rate were made anew; 0: they were not."""
    has_ended: bool = False
    """Whether the training has ended by itself, for example by EarlyStopping."""
    strategy: str = "single"
    workers: int = 1

    @classmethod
    def read(cls, checkpoint: Path | None) -> Progress:
        """Of a checkpoint; of a training that begins where there is none."""
        return cls() if checkpoint is None else cls(**json.loads((checkpoint / ABOUT_FILE).read_text()))

    def write(self, folder: Path) -> None:
        """Write it into the folder of a checkpoint."""
        (folder / ABOUT_FILE).write_text(json.dumps(dataclasses.asdict(self)))

    def last_report(self, metric: str) -> Report | None:
        """The last epoch as it was reported, without its time; None before any."""
        return Report.from_metrics(self.epochs, metric, self.metrics) if self.epochs else None

    def refuse_other_workers(self, strategy: str, workers: int) -> None:
        """Refuse to continue a sharded checkpoint by another strategy, or by another number of workers.

        Raises:
            CannotTrain: they differ, and one of them is sharded.
        """
        is_sharded = any(name.startswith(("fsdp", "deepspeed")) for name in (self.strategy, strategy))
        if is_sharded and (self.strategy, self.workers) != (strategy, workers):
            raise CannotTrain(
                f"the checkpoint is of strategy {self.strategy} with {count(self.workers, 'worker')}, and "
                f"strategy {strategy} with {count(workers, 'worker')} can't read it: sharded checkpoints are "
                "read only by the strategy and the number of workers that wrote them"
            )


class Run(Protocol):
    """A training that is advanced a report at a time, and can be left and continued."""

    @property
    def why_no_test(self) -> str:
        """Why the model can't be scored on test rows; "" where it can."""

    @property
    def checkpoint_bytes(self) -> int:
        """About what `save` writes, on all workers together; 0 where that is not known."""

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
            newest: the newest checkpoint that was written; None: there is none.
        """


class Notices:
    """What is to be told to the user, each text once in a run."""

    def __init__(self) -> None:
        self._is_told: dict[str, bool] = {}

    def add(self, text: str) -> None:
        """Add a text; it may come many times."""
        self._is_told.setdefault(text, False)

    def take(self) -> list[str]:
        """The texts that are new since the last call."""
        found = [text for text, is_told in self._is_told.items() if not is_told]
        self._is_told.update(dict.fromkeys(found, True))
        return found


class CheckpointUnusable(CannotTrain):
    """A run can't continue from its checkpoint, but from an earlier one."""
