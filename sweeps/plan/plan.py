"""The checked plan of a sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.models import Model
from sweeps.record.constraints import why_missed
from sweeps.record.record import Record
from sweeps.record.sweep_info import Confirmation
from sweeps.record.trials import Earlier, Ending, TrialRow
from sweeps.search.record_scheduler import PruningMethod
from sweeps.search.search_method import SearchMethod
from sweeps.space.point import Point, Space
from sweeps.storage import retention
from sweeps.storage.open import open_storage
from sweeps.storage.protocol import Storage


@dataclass(frozen=True)
class Lineage:
    """What a sweep takes over from the sweeps that it refines."""

    parents: Sequence[Mapping[str, Any]]
    """Name, folder and start of each."""
    earlier: Earlier
    lines: Sequence[tuple[str, str]]
    """For the plan, in two columns."""


@dataclass(frozen=True)
class Plan:
    """A checked sweep."""

    config: SweepConfig
    """With every default settled."""
    models: tuple[Model, ...]
    searcher: type[SearchMethod]
    scheduler: type[PruningMethod]
    space: Space
    """Of all models."""
    folder: Path
    lineage: Lineage | None = None
    """Of a new sweep that refines others."""
    tries: tuple[Point, ...] = ()
    """The trials of --try."""

    @cached_property
    def storage(self) -> Storage:
        """Where its checkpoints go."""
        return open_storage(self.config.storage, self.folder)

    def has_weights(self, trainable: str) -> bool:
        """Whether a trial of this trainable has weights of its best epoch, which are kept if it leads."""
        return next((model.trainable.has_weights for model in self.models if model.name == trainable), True)

    def lacks_weights(self, record: Record, number: int) -> bool:
        """Whether a trial is among the best and has no checkpoint of its best epoch."""
        has_any = self.has_weights(record.trials[number].trainable)
        return has_any and retention.lacks_weights(self.config, record, self.storage, number)

    def refusal(self, point: Point) -> Ending | None:
        """The end of a point that is never trained: its static metrics miss a constraint, or can't be
        computed; None of one that is."""
        model = next((model for model in self.models if model.name == point.trainable), None)
        if model is None or not self.config.constraints:
            return None
        try:
            metrics = model.static_metrics({**point.fixed, **point.params})
        except CannotTrain as error:
            return Ending("failed", str(error))
        why = why_missed(self.config.objectives, metrics)
        return Ending("infeasible", why, metrics) if why else None

    @property
    def confirmation(self) -> Confirmation | None:
        """The reruns that are asked for."""
        config = self.config
        return Confirmation(config.confirm_top, config.confirm) if config.confirm else None

    def new_tries(self, record: Record) -> list[Point]:
        """The points of --try that the record does not have yet."""
        tried = [Point(**each.point) for each in record.info.steered if each.command == "try"]
        known = {point.key for point in (*tried, *(trial.point for trial in record.searched))}
        return [point for point in self.tries if point.key not in known]

    def changed(self, **settings: Any) -> Plan:
        """The same with other settings; its storage stays open."""
        changed = dataclasses.replace(self, config=self.config.changed(**settings))
        vars(changed).update({name: value for name, value in vars(self).items() if name == "storage"})
        return changed

    def waits(self, record: Record, trial: TrialRow) -> bool:
        """Whether the scheduler lets a trial wait now, for others to reach its epoch."""
        last = max(trial.epochs, default=0)
        return trial.confirms is None and self.scheduler.waits_at(self.config, record, trial.number, last)
