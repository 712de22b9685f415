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
import math
import warnings
from collections.abc import Iterator

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState

from sweeps.common.objective import Objectives
from sweeps.record.trials import TrialRow
from sweeps.search.search_method import ALL_OF_OPTUNA, MODEL_ATTEMPTS, SearchMethod
from sweeps.space.optuna_space import known_trial
from sweeps.space.point import InvalidPoint, OptunaPoint, Point


class Searcher(SearchMethod):
    """Proposes what Optuna's model proposes."""

    TAKES = ALL_OF_OPTUNA
    TAKES_OBJECTIVES = True

    def propose(self, number: int) -> Iterator[Point]:
        fidelity = self.known.fidelity(self.space.dimensions + 2)
        if fidelity is not None:
            study = self._study(fidelity, self.model_seed(number))
            for _ in range(MODEL_ATTEMPTS):
                with contextlib.suppress(InvalidPoint):
                    yield self.space.suggest(study.ask())
        yield from self.random_points(number)

    def _study(self, fidelity: int, seed: int) -> optuna.Study:
        """The trials of the record, for the model of one fidelity."""
        with warnings.catch_warnings():
            # `multivariate`, `group` and `constant_liar` are marked experimental; tests cover what they do.
            warnings.simplefilter("ignore", ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=seed,
                multivariate=True,
                group=self.space.is_conditional,
                constant_liar=True,
                n_startup_trials=0,
            )
        objectives = self.record.objectives
        directions = [each.direction for each in objectives.every]
        study = optuna.create_study(sampler=sampler, directions=directions)
        both = zip(self.known.trials, self.known.points, strict=True)
        study.add_trials(
            [frozen_trial(trial, fidelity, point, objectives) for trial, point in both if point is not None]
        )
        return study


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
    return known_trial(point, state, values if state == TrialState.COMPLETE else None, below)
