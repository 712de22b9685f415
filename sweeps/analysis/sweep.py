"""A sweep that was recorded, loaded to be looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.config.sweep_folder import no_sweep

if TYPE_CHECKING:
    import pyarrow as pa

    from sweeps.analysis.best_model import Best
    from sweeps.record.record import Record


@dataclass(frozen=True)
class Sweep:
    """A sweep to look at, as far as it had come when it was loaded."""

    record: Record = field(repr=False)
    """What all else is made of: trials with their epochs, as objects."""

    @property
    def folder(self) -> Path:
        return self.record.folder

    @property
    def about(self) -> Mapping[str, Any]:
        """sweep, trainable, metric, mode, seed, runs (when each began, and what had changed), outcome
        (finished, out of time, interrupted; unfinished while it runs), test (the winner's scores), tests (of
        all that were the winner when a run of the sweep ended)."""
        return self.record.about

    @cached_property
    def trials(self) -> pa.Table:
        """A row per trial; see `tables.trials_table`."""
        from sweeps.analysis import tables

        return tables.trials_table(self.record)

    @cached_property
    def epochs(self) -> pa.Table:
        """A row per reported epoch; see `tables.epochs_table`."""
        from sweeps.analysis import tables

        return tables.epochs_table(self.record)

    def best(self) -> Best | None:
        """The best trial that ended well; while none has, the best one of those that train. None without a
        finite score."""
        from sweeps.analysis import best_model

        return best_model.best_of(self.record)


def load(folder: str | Path) -> Sweep:
    """The sweep in a results folder, from its record, as far as it has come.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        RecordUnreadable: its record is damaged, or of a newer version.
    """
    if (why := no_sweep(Path(folder))) is not None:
        raise FileNotFoundError(why)
    from sweeps.record.record import Record

    return Sweep(Record.read(Path(folder)))


def compare(sweeps: Iterable[Sweep | str | Path]) -> pa.Table:
    """Sweeps side by side, a row each; see `comparison.table`.

    Raises:
        FileNotFoundError, RecordUnreadable: as `load`.
    """
    from sweeps.analysis import comparison

    loaded = (sweep if isinstance(sweep, Sweep) else load(sweep) for sweep in sweeps)
    return comparison.table(sweep.record for sweep in loaded)
