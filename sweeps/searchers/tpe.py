"""TPE: a model of which params are good, drawn from. Bergstra et al., 2011; Optuna's TPESampler.

The model is fitted to one fidelity at a time, the highest rung that enough trials have reached, as in
BOHB (Falkner et al., 2018, https://arxiv.org/abs/1807.01774): scores at different epochs are never ranked
against each other. In Optuna, a trial that was stopped below that rung is PRUNED at the epoch where it
stopped (worse than all that reached the rung, the earliest worst), one that diverged or is infeasible
PRUNED without a value (worst of all), one that failed before the rung FAIL (left out: a crash does not
depend on the params), and one that still trains RUNNING, which keeps concurrent proposals apart.

With several objectives it is Optuna's multi-objective TPE (Ozaki et al., 2022,
https://doi.org/10.1613/jair.1.13188): all trials that were pruned below the rung are equally bad.

Hyperparameters that only some trials have are modelled from those trials (`group`); a hyperparameter whose
range excludes the model's value is sampled again, independently.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState

from sweeps.common.objective import Objectives
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.candidates import MODEL_ATTEMPTS, model_fidelity, model_seed, random_points
from sweeps.search.feasibility import Feasibility
from sweeps.search.record_searcher import RecordSearcher
from sweeps.search.rungs import rungs
from sweeps.space.domain import Form
from sweeps.space.point import InvalidPoint, OptunaPoint, Point, Space
from sweeps.space.replay import optuna_point

TAKES: frozenset[Form] = frozenset({"finite", "continuous", "conditional", "several"})
SCHEDULERS = ("halving", "asha", "hyperband", "none")
TAKES_OBJECTIVES = True


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """TPE with a model of the record's trials."""
    enough = space.dimensions + 2
    fidelities, past = [config.max_epochs, *reversed(rungs(config))], Past(space, record)

    def propose(number: int) -> Iterator[Point]:
        fidelity = model_fidelity(record, fidelities, enough)
        if fidelity is not None:
            seed = model_seed(config.seed, number)
            yield from _model_points(space, past.at(fidelity), record.objectives, seed)
        yield from random_points(space, config.seed, number)

    return RecordSearcher(record, space, Feasibility(config, space, record).constrained(propose), config)


class Past:
    """The trials of a record as those of a study, which are made anew only as long as they may change.

    Args:
        space: of the sweep.
        record: of the sweep.
    """

    def __init__(self, space: Space, record: Record) -> None:
        self._space, self._record = space, record
        self._points: list[OptunaPoint | None] = []
        """Of each trial in turn; None: see `_point`."""
        self._fidelity = 0
        self._ended: dict[int, FrozenTrial] = {}
        """By their position, those of this fidelity that have ended."""

    def at(self, fidelity: int) -> list[FrozenTrial]:
        """Those that are points of the space, for the model of one fidelity."""
        if fidelity != self._fidelity:
            self._fidelity, self._ended = fidelity, {}
        known = [*self._record.earlier.trials, *self._record.searched]
        self._points.extend(self._point(trial) for trial in known[len(self._points) :])
        both = enumerate(zip(known, self._points, strict=True))
        return [self._frozen(place, trial, point) for place, (trial, point) in both if point is not None]

    def _point(self, trial: TrialRow) -> OptunaPoint | None:
        """A trial's point; None when it is not a point of the space, which was changed with --force."""
        with contextlib.suppress(LookupError, ValueError):
            return optuna_point(self._space, trial.point)
        return None

    def _frozen(self, place: int, trial: TrialRow, point: OptunaPoint) -> FrozenTrial:
        if (found := self._ended.get(place)) is None:
            found = frozen_trial(trial, self._fidelity, point, self._record.objectives)
            if trial.status != "unfinished":
                self._ended[place] = found
        return found


class Known(FrozenTrial):
    """A trial that its study only reads. Optuna copies each one deeply into a study, which took most of the
    time of a proposal."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Known:
        return copy.copy(self)  # the study numbers it


def frozen_trial(trial: TrialRow, fidelity: int, point: OptunaPoint, objectives: Objectives) -> FrozenTrial:
    """A trial for the model of one fidelity."""
    row = trial.epochs.get(fidelity)
    state, below = TrialState.RUNNING, {}
    values = None if row is None else objectives.values(row.score, row.metrics)
    is_missed = row is not None and objectives.losses(row.score, row.metrics)[0] > 0
    if trial.status in ("diverged", "infeasible") or is_missed:
        state = TrialState.PRUNED
    elif values is not None and all(map(math.isfinite, values)):
        state = TrialState.COMPLETE
    elif trial.status == "failed":
        state = TrialState.FAIL
    elif trial.status != "unfinished":
        state = TrialState.PRUNED
        if not objectives.are_several:  # Optuna orders pruned trials by one value
            below = {epoch: row.score for epoch, row in trial.epochs.items()}
    now = datetime.now()
    return Known(
        number=-1,
        trial_id=-1,
        state=state,
        value=None,
        values=values if state == TrialState.COMPLETE else None,
        datetime_start=now,
        datetime_complete=now if state.is_finished() else None,
        params=dict(point.params),
        distributions=dict(point.distributions),
        user_attrs={},
        system_attrs={},
        intermediate_values=below,
    )


def _model_points(
    space: Space, past: list[FrozenTrial], objectives: Objectives, seed: int
) -> Iterator[Point]:
    with warnings.catch_warnings():
        # `multivariate`, `group` and `constant_liar` are marked experimental; tests cover their behaviour.
        warnings.simplefilter("ignore", ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            group=space.is_conditional,
            constant_liar=True,
            n_startup_trials=0,
        )
    study = optuna.create_study(sampler=sampler, directions=[each.direction for each in objectives.every])
    study.add_trials(past)
    for _ in range(MODEL_ATTEMPTS):
        with contextlib.suppress(InvalidPoint):
            yield space.suggest(study.ask())
