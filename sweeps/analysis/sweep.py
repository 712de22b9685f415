"""A recorded sweep, loaded for analysis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from sweeps.analysis import best_model, comparison, tables
from sweeps.config.sweep_folder import no_sweep
from sweeps.record.record import Record


@dataclass(frozen=True)
class Sweep:
    """A sweep, as far as it had come when it was loaded."""

    record: Record = field(repr=False)
    """Trials with their epochs, as objects: all else is made of it."""

    @property
    def folder(self) -> Path:
        return self.record.folder

    @property
    def about(self) -> Mapping[str, Any]:
        """sweep, trainable, metric, mode, seed, runs (when each began, and what had changed), outcome
        (finished, out of time, interrupted; running while it runs), test (the winner's scores), tests (of
        all that were the winner when a run of the sweep ended)."""
        return self.record.about

    @cached_property
    def trials(self) -> pa.Table:
        """A row per trial; see `tables.trials_table`."""
        return tables.trials_table(self.record)

    @cached_property
    def epochs(self) -> pa.Table:
        """A row per reported epoch; see `tables.epochs_table`."""
        return tables.epochs_table(self.record)

    def best(self) -> best_model.Best | None:
        """The best trial, with several objectives the knee; its `status` says whether it has ended. None
        without a finite score."""
        return best_model.best_of(self.record)

    def front(self) -> list[best_model.Best]:
        """The trials that no other one dominates, the knee first; with one objective the best one. [] without
        a finite score."""
        return best_model.front_of(self.record)


def load(folder: str | Path) -> Sweep:
    """The sweep in a results folder, from its record, as far as it has come.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        RecordUnreadable: its record is damaged, or of a newer version.
    """
    if (why := no_sweep(Path(folder))) is not None:
        raise FileNotFoundError(why)
    return Sweep(Record.read(Path(folder)))


def compare(sweeps: Iterable[Sweep | str | Path]) -> pa.Table:
    """Sweeps side by side, a row each; see `comparison.table`.

    Raises:
        FileNotFoundError, RecordUnreadable: as `load`.
    """
    loaded = (sweep if isinstance(sweep, Sweep) else load(sweep) for sweep in sweeps)
    return comparison.table(sweep.record for sweep in loaded)
