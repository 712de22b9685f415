"""TPE: a model of which params are good, drawn from. Bergstra et al., 2011; Optuna's TPESampler.

The model is fitted to one fidelity at a time, the highest rung that enough trials have reached, as
BOHB does (Falkner et al., 2018, https://arxiv.org/abs/1807.01774): scores at different epochs are
never ranked against each other. A trial that was stopped below that rung is told as PRUNED at the
epoch where it stopped (worse than all that reached the rung, those stopped early worst), one that
diverged as PRUNED without a value (worst of all), one that failed before it as FAIL (left out: a
crash says nothing of the params), and those still training as RUNNING, which keeps concurrent
proposals apart.

Hyperparameters that only some trials have are modelled by those trials (`group`); a hyperparameter whose
range excludes what the model drew is drawn anew, by itself.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.common.objective import Objective
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.candidates import draws, model_fidelity
from sweeps.search.record_searcher import RecordSearcher
from sweeps.search.rungs import rungs
from sweeps.space.domain import Form
from sweeps.space.point import InvalidPoint, OptunaPoint, Point, Space, optuna_point

TAKES: frozenset[Form] = frozenset({"finite", "continuous", "conditional", "several"})
SCHEDULERS = ("asha", "hyperband", "none")
DRAWS = 20
"""Draws from the model before a random point is taken instead of a duplicate."""


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """TPE that models what the record holds."""
    enough = space.dimensions + 2
    fidelities = [config.max_epochs, *reversed(rungs(config))]
    replayed: list[OptunaPoint | None] = []  # of each trial in turn: what was tried never changes

    def propose(number: int) -> Iterator[Point]:
        fidelity = model_fidelity(record, fidelities, enough)
        if fidelity is not None:
            known = [*record.earlier.trials, *record.searched]
            replayed.extend(_replay(space, trial) for trial in known[len(replayed) :])
            both = zip(known, replayed, strict=True)
            past = [as_told(trial, fidelity, words) for trial, words in both if words is not None]
            yield from _draws(space, past, record.objective, (config.seed, number))
        yield from draws(space, config.seed, number)

    return RecordSearcher(record, space, propose, config)


def _replay(space: Space, trial: TrialRow) -> OptunaPoint | None:
    """A trial's point as Optuna is told of it; None when it is not of this space, which was changed under
    the sweep: a hyperparameter is missing, or not one of the values."""
    with contextlib.suppress(LookupError, ValueError):
        return optuna_point(space, trial.point)
    return None


def as_told(trial: TrialRow, fidelity: int, words: OptunaPoint) -> FrozenTrial:
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
        params=dict(words.params),
        distributions=dict(words.distributions),
        intermediate_values=below,
    )


def _draws(
    space: Space, past: list[FrozenTrial], objective: Objective, seeds: tuple[int, ...]
) -> Iterator[Point]:
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    with warnings.catch_warnings():
        # `multivariate` and `constant_liar` are marked experimental; their behaviour is tested here.
        warnings.simplefilter("ignore", ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            group=space.is_conditional,
            constant_liar=True,
            n_startup_trials=0,
        )
    study = optuna.create_study(sampler=sampler, direction=objective.direction)
    study.add_trials(past)
    for _ in range(DRAWS):
        with contextlib.suppress(InvalidPoint):
            yield space.suggest(study.ask())
