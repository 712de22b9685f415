"""A recorded sweep, loaded for analysis: its tables, its best trial, and the model that this one trained."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sweeps.analysis import comparison, tables
from sweeps.common import param_types, project
from sweeps.common.errors import UserError, first_line
from sweeps.common.formatting import shown_path
from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_folder import BEST_FOLDER, no_sweep, sweep_named
from sweeps.kinds import registry
from sweeps.kinds.params_file import WEIGHTS_FILE
from sweeps.kinds.trainable import as_lightning
from sweeps.record.record import Record
from sweeps.record.reruns import Confirmed
from sweeps.record.trials import Status, TrialRow
from sweeps.storage import retention
from sweeps.storage.open import open_storage_of
from sweeps.storage.protocol import StorageError
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.config import FitConfig

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule


@dataclass(frozen=True)
class Best:
    """The best trial, or one of the front, as far as the sweep had come when it was loaded."""

    number: int
    trainable: str
    params: Mapping[str, ParamValue]
    """All hyperparameters that it trains with, fixed ones too."""
    status: Status
    """`unfinished` while it trains, or where its sweep was stopped: it may still improve, or fail."""
    run: int
    """Whose weights `model()` has: the trial itself, or, where it was confirmed, the best of its reruns with
    new seeds, by its number. Score, epoch and seed are of this run."""
    score: float
    epoch: int
    """The epoch of that score, 1-based."""
    values: Mapping[str, float]
    """The metric of each objective there."""
    seed: int
    confirmed: Confirmed | None
    """Mean, deviation and scores over its new seeds; None where it was not confirmed."""
    folder: Path = field(repr=False)
    """Of the sweep."""

    def model(self) -> LightningModule:
        """The trained model, with the weights of the run's best epoch, on the CPU, ready to predict.

        Its weights are those of `best/`; while the sweep has none of this epoch, those of the run's newest
        checkpoint, with a warning where it is of an earlier epoch.

        Raises:
            UserError: there are no weights (yet, or any more), or the trainable has changed since.
        """
        project.use_noted(self.folder, [self.trainable], shown_path(self.folder))
        trainable = as_lightning(registry.find(self.trainable))
        weights = self._weights()
        params, config = self._params_of(trainable.params_class), FitConfig(seed=self.seed)
        from sweeps.training.checkpoints import (
            trained_model,  # with PyTorch: seconds that reading a record does not need
        )
        from sweeps.training.data import preparation

        def prepared() -> Path | None:
            return preparation.prepare_for_run(trainable, self.params)

        try:
            return trained_model.load_model(trainable, params, config, weights.parent, prepared)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise UserError(f"{shown_path(weights)} can't be read: {first_line(error)}") from None
        except (RuntimeError, TypeError) as error:  # of PyTorch: a torn file, other layers than these
            raise UserError(
                f"{shown_path(weights)} does not fit the model that {self.trainable} builds now, or is "
                "damaged: " + " ".join(str(error).split())
            ) from None

    def _weights(self) -> Path:
        best = retention.best_folder_of(self.folder, self.number, self.run, self.epoch)
        if best is not None and (best / WEIGHTS_FILE).is_file():
            return best / WEIGHTS_FILE
        newest, faults = open_storage_of(self.folder).newest(self.run, self.params)
        if newest is None:
            why = "; ".join(faults) or "not written yet, or removed"
            what = f"no weights of trial {self.run}, in {BEST_FOLDER}/ or as a checkpoint"
            raise UserError(f"{shown_path(self.folder)}: {what}: {why}")
        if checkpoint_store.epoch_of(newest) < self.epoch:
            warnings.warn(
                f"trial {self.run} was best in epoch {self.epoch}; its newest weights are of epoch "
                f"{checkpoint_store.epoch_of(newest)} or before",
                stacklevel=3,
            )
        return newest / WEIGHTS_FILE

    def _params_of(self, params_class: Any) -> Any:
        known = param_types.hints_of(params_class)
        what = f"{shown_path(self.folder)}: trial {self.number} does not fit {self.trainable} as it is now: "
        faults = [f"{name}: {param_types.unknown(name, known)}" for name in self.params if name not in known]
        if faults:
            raise UserError(what + "; ".join(faults))
        try:
            return param_types.build_params(params_class, self.params)
        except Exception as error:  # whatever the model says of its own hyperparameters
            raise UserError(what + first_line(error)) from None


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

    def best(self) -> Best | None:
        """The best trial, with several objectives the knee; its `status` says whether it has ended. None
        without a finite score."""
        return next(iter(self.front()), None)

    def front(self) -> list[Best]:
        """The trials that no other one dominates, the knee first; with one objective the best one. [] without
        a finite score."""
        if not (numbers := self.record.front()):
            return []
        try:
            runs = retention.runs_of_front(self.record, open_storage_of(self.folder))
        except StorageError:  # which rerun has weights is not known; the trial is
            runs = [self.record.trials[number] for number in numbers]
        confirmed = self.record.confirmed_with_score()
        return [
            _best(self.record, self.record.trials[number], run, confirmed.get(number))
            for number, run in zip(numbers, runs, strict=True)
        ]


def _best(record: Record, trial: TrialRow, run: TrialRow, confirmed: Confirmed | None) -> Best:
    score, epoch = run.best_score(record.objective), run.best_epoch(record.objective)
    values = run.values(record.objectives)
    assert score is not None
    assert epoch is not None
    assert values is not None
    return Best(
        number=trial.number,
        trainable=trial.trainable,
        params={**trial.fixed, **trial.params},
        status=trial.status,
        run=run.number,
        score=score,
        epoch=epoch,
        values=dict(zip(record.objectives.metrics, values, strict=True)),
        seed=run.seed,
        confirmed=confirmed,
        folder=record.folder,
    )


def load(folder: str | Path) -> Sweep:
    """The sweep of a folder, or of a name in results/, from its record, as far as it has come.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        RecordUnreadable: its record is damaged, or of a newer version.
    """
    if (why := no_sweep(there := sweep_named(str(folder)))) is not None:
        raise FileNotFoundError(why)
    return Sweep(Record.read(there))


def compare(sweeps: Iterable[Sweep | str | Path]) -> pa.Table:
    """Sweeps side by side, a row each; see `comparison.table`.

    Raises:
        FileNotFoundError, RecordUnreadable: as `load`.
    """
    loaded = (sweep if isinstance(sweep, Sweep) else load(sweep) for sweep in sweeps)
    return comparison.table(sweep.record for sweep in loaded)
