"""TPE: a model of which params are good, drawn from. Bergstra et al., 2011; Optuna's TPESampler.

The model is fitted to one fidelity at a time, the highest rung that enough trials have reached, as
BOHB does (Falkner et al., 2018, https://arxiv.org/abs/1807.01774): scores at different epochs are
never ranked against each other. A trial that was stopped below that rung is told as PRUNED at the
epoch where it stopped (worse than all that reached the rung, those stopped early worst), one that
diverged as PRUNED without a value (worst of all), one that failed before it as FAIL (left out: a
crash says nothing of the params), and those still training as RUNNING, which keeps concurrent
proposals apart.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.config import Knob, SweepConfig
from sweeps.domains import Form, on_grid
from sweeps.record import Record
from sweeps.rows import TrialRow
from sweeps.rungs import rungs
from sweeps.searchers._searcher import RecordSearcher
from sweeps.searchers.random import draws
from sweeps.space import Space

TAKES: frozenset[Form] = frozenset({"finite", "continuous"})
SCHEDULERS = ("asha", "hyperband", "none")
DRAWS = 20
"""Draws from the model before a random point is taken instead of a duplicate."""


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """TPE that models what the record holds."""
    words = space.distributions()
    enough = len(words) + 2
    fidelities = [config.max_epochs, *reversed(rungs(config))]

    def propose(number: int) -> Iterator[dict[str, Knob]]:
        fidelity = model_fidelity(record, fidelities, enough)
        if fidelity is not None:
            told = [as_told(trial, fidelity, words) for trial in record.trials if _is_in(trial, words)]
            yield from _draws(space, told, words, record.mode, (config.seed, number))
        yield from draws(space, config.seed, number)

    return RecordSearcher(record, space, propose, config)


def model_fidelity(record: Record, fidelities: list[int], enough: int) -> int | None:
    """The highest of the epochs that `enough` trials have reached, None while there is none."""
    return next((epoch for epoch in fidelities if len(record.scores_at(epoch)) >= enough), None)


def _is_in(trial: TrialRow, words: dict[str, BaseDistribution]) -> bool:
    """Whether a trial is one of this space: not so when the space was changed under a sweep."""
    params = {name: trial.params[name] for name in words if name in trial.params}
    try:
        create_trial(state=TrialState.RUNNING, params=params, distributions=words)
    except ValueError:  # Optuna's check: a knob is missing, or not one of the values
        return False
    return True


def as_told(trial: TrialRow, fidelity: int, words: dict[str, BaseDistribution]) -> FrozenTrial:
    """A trial as the model of one fidelity sees it."""
    row = trial.epochs.get(fidelity)
    state, value, below = TrialState.RUNNING, None, {}
    if trial.status == "diverged":
        state = TrialState.PRUNED
    elif row is not None and math.isfinite(row.score):
        state, value = TrialState.COMPLETE, row.score
    elif trial.status == "failed":
        state = TrialState.FAIL
    elif trial.status != "unfinished":
        state = TrialState.PRUNED
        below = {epoch: row.score for epoch, row in trial.epochs.items()}
    return create_trial(
        state=state,
        value=value,
        params={name: trial.params[name] for name in words},
        distributions=words,
        intermediate_values=below,
    )


def _draws(
    space: Space,
    told: list[FrozenTrial],
    words: dict[str, BaseDistribution],
    mode: str,
    seeds: tuple[int, ...],
) -> Iterator[dict[str, Knob]]:
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    with warnings.catch_warnings():
        # `multivariate` and `constant_liar` are marked experimental; their behaviour is tested here.
        warnings.simplefilter("ignore", ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=0
        )
    study = optuna.create_study(sampler=sampler, direction="maximize" if mode == "max" else "minimize")
    study.add_trials(told)
    for _ in range(DRAWS):
        proposed = study.ask(words).params
        yield space.cast({name: on_grid(space.domains[name], value) for name, value in proposed.items()})
