"""Loggers, to which a sweep's trials are written beside its record: `--loggers tensorboard mlflow wandb`.

A logger is a module with a class `Logger` that extends `RunWriter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.common.objective import Objective
from sweeps.record.trials import EpochRow, TrialRow


class RunWriter(ABC):
    """Writes the trials of a sweep somewhere else. It may raise anything: the sweep goes on, and a new one is
    built for the next attempt."""

    NEEDS: ClassVar[tuple[str, str]]
    """The package that it imports, and the extra that installs it."""

    @classmethod  # noqa: B027 (most have nothing to look at)
    def check(cls) -> None:
        """Look, before the sweep, whether it can write.

        Raises:
            UserError: it can't; the text says why.
        """

    @classmethod
    @abstractmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> RunWriter:
        """One for the sweep in a folder; `about` is that of its record."""

    @abstractmethod
    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Write the epochs and the status of a trial that are not written yet.

        Args:
            trial: the trial in the record.
            is_on: whether the sweep runs; else an unfinished trial waits for a resume.
        """

    def close(self) -> None:  # noqa: B027 (most have nothing to end)
        """End: nothing more is written."""


def epochs_with_best(
    trial: TrialRow, objective: Objective
) -> Iterator[tuple[int, EpochRow, dict[str, float]]]:
    """Each epoch of a trial in order, with its metrics and, as `best`, the best score so far."""
    best: float | None = None
    for epoch, row in sorted(trial.epochs.items()):
        if objective.is_better(row.score, best):
            best = row.score
        yield epoch, row, {**row.metrics, **({} if best is None else {"best": best})}
