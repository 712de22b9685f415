"""NSGA-II: new trials are children of good ones. Deb et al., 2002, https://doi.org/10.1109/4235.996017

Parents are the best trials at one fidelity, the highest rung that enough trials have reached: by front, and
within a front by the epsilon-net of `common/pareto.py`, by which trials are pruned too, in place of the
crowding distance. Each of two parents wins a tournament of two. A child has each hyperparameter of one of
them, and some moved or drawn anew. There are no generations: a trial is a parent as soon as it is scored
(Durillo et al., 2009, https://doi.org/10.1007/978-3-642-01020-0_18), so no slot waits for others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.best_first import BestFirst
from sweeps.record.record import Record
from sweeps.record.trials import BAD, TrialRow
from sweeps.search.candidates import MODEL_ATTEMPTS, model_fidelity, random_points
from sweeps.search.feasibility import Feasibility
from sweeps.search.record_searcher import RecordSearcher
from sweeps.search.rungs import rungs
from sweeps.space.domain import Form
from sweeps.space.encoding import Array, Encoding
from sweeps.space.point import InvalidPoint, Point, Space
from sweeps.space.replay import optuna_point

TAKES: frozenset[Form] = frozenset({"finite", "continuous", "conditional", "several"})
SCHEDULERS = ("halving", "asha", "hyperband", "none")
TAKES_OBJECTIVES = True
ENOUGH = 10
"""Trials at a fidelity, from which on they are parents; before, points are random."""
MOST_PARENTS = 20
"""A larger population needs more trials than a few GPUs train."""
CROSSOVER = 0.9
"""Share of the children that have hyperparameters of both parents."""
DRAWN_ANEW = 0.5
"""Share of the mutated hyperparameters that are drawn anew; the others move by about SPREAD of the range."""
SPREAD = 0.1


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """NSGA-II over the record's trials."""
    propose = Evolution(config, space, record).propose
    return RecordSearcher(record, space, Feasibility(config, space, record).constrained(propose), config)


class Evolution:
    """The candidates that follow from the trials so far; the record alone decides."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        self._seed, self._space, self._record = config.seed, space, record
        self._fidelities = [config.max_epochs, *reversed(rungs(config))]
        self._rows: list[Array | None] = []
        """Coordinates of the trials in order. None of one that is not a point of the space, which was changed
        with --force."""
        self._fidelity: int | None = None
        self._scored: set[int] = set()
        """Positions of the trials that were scored at this fidelity, and did not go wrong."""
        self._order = BestFirst()
        """Of these, as far as all their values are finite."""

    def propose(self, number: int) -> Iterator[Point]:
        """Candidates for the trial of a number."""
        generator = np.random.default_rng(np.random.SeedSequence((self._seed, number, 3)))
        fidelity = model_fidelity(self._record, self._fidelities, ENOUGH)
        parents = [] if fidelity is None else self._parents(fidelity)
        for _ in range(MODEL_ATTEMPTS if parents else 0):
            with contextlib.suppress(InvalidPoint):
                yield self._encoding.point(self._child(parents, generator), generator)
        yield from random_points(self._space, self._seed, number)

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding.of(self._space)

    def _parents(self, fidelity: int) -> list[Array]:
        """The coordinates of the best trials at an epoch, the best first."""
        known = [*self._record.earlier.trials, *self._record.searched]
        self._rows += [self._coordinates(trial) for trial in known[len(self._rows) :]]
        scored = {
            index
            for index, (trial, row) in enumerate(zip(known, self._rows, strict=True))
            if row is not None and fidelity in trial.epochs and trial.status not in BAD
        }
        if fidelity != self._fidelity or self._scored - scored:  # one went wrong since
            self._fidelity, self._scored, self._order = fidelity, set(), BestFirst()
        for index in scored - self._scored:
            reported = known[index].epochs[fidelity]
            losses = self._record.objectives.losses(reported.score, reported.metrics)
            if np.isfinite(losses[1:]).all():
                self._order.add(index, losses)
        self._scored = scored
        best = (self._rows[index] for index in self._order.first(MOST_PARENTS))
        return [row for row in best if row is not None]

    def _coordinates(self, trial: TrialRow) -> Array | None:
        with contextlib.suppress(LookupError, ValueError):
            optuna_point(self._space, trial.point)
            return self._encoding.coordinates(trial.point)
        return None

    def _child(self, parents: list[Array], generator: np.random.Generator) -> Array:
        """[hyperparameters]; one that the child's branch of the space has, and its parents lack, is nan."""
        first, second = (parents[generator.integers(len(parents), size=2).min()] for _ in range(2))
        is_of_second = generator.random(len(first)) < (0.5 if generator.random() < CROSSOVER else 0.0)
        child: Array = np.where(is_of_second, second, first)
        for place, axis in enumerate(self._encoding.axes.values()):
            if generator.random() >= 1 / len(child) or np.isnan(child[place]):
                continue
            own, spread = child[place : place + 1], np.full(1, SPREAD)
            moves = generator.random() >= DRAWN_ANEW
            child[place : place + 1] = (
                axis.near(own, spread, generator) if moves else axis.drawn(generator, 1)
            )
        return child
