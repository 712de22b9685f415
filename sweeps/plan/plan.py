"""The checked plan of a sweep."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.common.param_types import shown
from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds.trainable import LightningTrainable
from sweeps.plan.models import Model, whole
from sweeps.record import status
from sweeps.record.constraints import why_missed
from sweeps.record.record import Record
from sweeps.record.sweep_info import Confirmation
from sweeps.record.trials import Earlier, Ending, TrialRow
from sweeps.search.record_scheduler import PruningMethod
from sweeps.search.search_method import SearchMethod
from sweeps.space.optuna_space import point_within
from sweeps.space.point import Point, Space
from sweeps.space.user_points import Baseline
from sweeps.storage import retention
from sweeps.storage.open import open_storage
from sweeps.storage.protocol import Storage, StorageError

Outside = tuple[Mapping[str, ParamValue], str]
"""Values that are no point of a space, and why."""


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
    baselines: tuple[Baseline, ...] = ()
    """The defaults of each model; () where none is to be tried."""
    tries: tuple[Point, ...] = ()
    """The trials of --try."""
    prior_left_out: tuple[str, ...] = ()
    """What PRIOR says that does not fit --ranges, a line each."""
    tries_outside: tuple[Outside, ...] = ()
    """Of a resume, those that lie outside its ranges. They were others when these were chosen, or it is a
    mistake."""

    @property
    def points(self) -> float:
        """How many points there are to try: those of the space, and the defaults that lie outside it."""
        outside = [each for each in self.baselines if each.point is not None and each.outside]
        return self.space.size() + len(outside)

    @cached_property
    def storage(self) -> Storage:
        """Where its checkpoints go."""
        return open_storage(self.config.storage, self.folder)

    @property
    def saves(self) -> bool:
        """Whether any of its trainables writes checkpoints."""
        return any(model.trainable.saves for model in self.models)

    def has_weights(self, trainable: str) -> bool:
        """Whether a trial of this trainable has weights of its best epoch, which are kept if it leads."""
        found = (model.trainable for model in self.models if model.name == trainable)
        return all(isinstance(each, LightningTrainable) for each in found)

    def lacks_weights(self, record: Record, number: int) -> bool:
        """Whether a trial is among the best and has no checkpoint of its best epoch."""
        has_any = self.has_weights(record.trials[number].trainable)
        return has_any and retention.lacks_weights(self.config, record, self.storage, number)

    def end_trial(self, record: Record, number: int, ending: Ending, log: str | None = None) -> str:
        """Write how a trial ends, and remove checkpoints that are not kept any more; why that failed, or "":
        they take room, and a resume removes them."""
        before = set[int]()
        with contextlib.suppress(StorageError):  # what is kept no more then stays, too
            before = retention.kept(self.config, record, self.storage)
        record.end(number, **ending._asdict(), log=log)
        try:
            retention.drop(self.config, record, self.storage, number, before)
        except StorageError as error:
            return str(error)
        return ""

    def saved_epoch(self, trial: TrialRow) -> int:
        """The epoch behind which a trial can go on from its newest checkpoint; 0 where it has none."""
        there = self.storage.epochs(trial.number)
        return max((epoch for epoch in there if epoch <= len(trial.epochs)), default=0)

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

    def trials_in_all(self, record: Record) -> int:
        """How many trials the search plans from now on: as many as are asked for. Where a limit has ended it,
        the number in sweep.yaml asks for no more; one that is typed does."""
        asked = self.config.num_trials or 0
        is_typed = (
            "num_trials" in self.config.typed or asked != record.info.identity["settings"]["num_trials"]
        )
        return asked if is_typed or not status.enough(record) else record.most_trials

    def new_tries(self, record: Record) -> list[Point]:
        """The points of --try that the record does not have yet."""
        tried = [Point(**each.point) for each in record.info.steered if each.command == "try"]
        known = {point.whole for point in (*tried, *(trial.point for trial in record.searched))}
        return [point for point in self.tries if point.whole not in known]

    def faults_of_tries(self, record: Record) -> list[str]:
        """Why points of --try can't be tried, of those that the record does not have."""
        tried = [Point(**each.point) for each in record.info.steered if each.command == "try"]
        chosen = [{**point.fixed, **point.params} for point in tried]
        return [
            "\n".join(f"--try {line}" for line in why.splitlines())
            for values, why in self.tries_outside
            if not any(_has(point, values) for point in chosen)
        ]

    def changed(self, models: tuple[Model, ...] | None = None, **settings: Any) -> Plan:
        """The same with other settings, or with its models in other ranges; its storage stays open."""
        changed = dataclasses.replace(self, config=self.config.changed(**settings))
        if models is not None:
            changed = dataclasses.replace(changed, models=models, space=whole(models))
        vars(changed).update({name: value for name, value in vars(self).items() if name == "storage"})
        return changed

    def points_left(self, record: Record) -> float:
        """How many points no trial has tried, of the space and of the defaults; infinite where they can't be
        listed."""
        if (points := self.space.size()) == math.inf:
            return math.inf
        places = [
            *(point_within(self.space, trial.point) for trial in record.earlier.trials),
            *(point_within(self.space, trial.point, self.config.ranges) for trial in record.searched),
        ]
        outside = sum(point_within(self.space, point) is None for point in record.baselines_to_try())
        return points + outside - len({place[0].key for place in places if place is not None})

    def waits(self, record: Record, trial: TrialRow) -> bool:
        """Whether the scheduler lets a trial wait now, for others to reach its epoch."""
        last = max(trial.epochs, default=0)
        return trial.confirms is None and self.scheduler.waits_at(self.config, record, trial.number, last)


def _has(point: Mapping[str, ParamValue], values: Mapping[str, ParamValue]) -> bool:
    """Whether a point has these values, which are named as they are typed."""
    found = ((point.get(name, point.get(name.rpartition(".")[2])), each) for name, each in values.items())
    return all(shown(own) == shown(each) for own, each in found)
