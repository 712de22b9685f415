"""What a training reports: an epoch that has ended, or a position inside one where it was left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import shortest

REPORT = "report"
"""Key under which a result of Tune's has it, for the schedulers."""


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
    """Of the first epoch of a run what `schedules.length_of` knows."""

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
            epoch: its number.
            metric: that trials are compared by.
            metrics: as Lightning has them; schedules that go by a metric need them to the last bit.
            seconds: as the field, like the others.
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
