"""Optuna by itself, asked over replayed curves: its TPE with a pruner of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
from optuna.samplers import TPESampler
from optuna.trial import TrialState
from ray.tune.search.optuna import OptunaSearch

from benchmarks._asked import GRACE_EPOCHS, REDUCTION_FACTOR
from benchmarks._problems import Problem

OPTUNAS: Mapping[str, Callable[[int], BasePruner]] = {
    "Optuna TPE + Hyperband": functools.partial(
        HyperbandPruner, GRACE_EPOCHS, reduction_factor=REDUCTION_FACTOR
    ),
    "Optuna TPE + successive halving": lambda max_epochs: SuccessiveHalvingPruner(
        GRACE_EPOCHS, REDUCTION_FACTOR
    ),
    "Optuna TPE + median": lambda max_epochs: MedianPruner(),
}
"""Arm to pruner, from the number of epochs. Optuna's documentation advises Hyperband for its TPE; the median
is what a study has by default."""


class Search:
    """A study; its sampler is the default one, with a seed.

    Args:
        arm: of OPTUNAS.
        problem: its space and the length of its curves.
        seed: of the sampler.
    """

    def __init__(self, arm: str, problem: Problem, seed: int) -> None:
        space: Any = OptunaSearch.convert_search_space(dict(problem.space))
        self._distributions = space
        self._study = optuna.create_study(
            study_name="search",  # Hyperband's brackets follow from it
            direction="maximize",
            sampler=TPESampler(seed=seed),
            pruner=OPTUNAS[arm](problem.max_epochs),
        )
        self._trials: list[optuna.Trial] = []

    def propose(self) -> Mapping[str, Any]:
        self._trials.append(self._study.ask(self._distributions))
        return self._trials[-1].params

    def hear(self, number: int, epoch: int, score: float, is_last: bool) -> Collection[int]:
        trial = self._trials[number]
        trial.report(score, epoch)
        if is_last:
            self._study.tell(trial, score)
        elif trial.should_prune():
            self._study.tell(trial, state=TrialState.PRUNED)
            return [number]
        return []
