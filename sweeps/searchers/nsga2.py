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

import numpy as np

from sweeps.record.pareto import BestFirst
from sweeps.record.trials import BAD
from sweeps.search.search_method import ALL_OF_OPTUNA, MODEL_ATTEMPTS, SearchMethod
from sweeps.space.numeric_range import Array
from sweeps.space.point import InvalidPoint, Point

MIN_TRIALS_FOR_PARENTS = 10
"""Trials at a fidelity, from which on they are parents; before, points are random."""
MOST_PARENTS = 20
"""A larger population needs more trials than a few GPUs train."""
CROSSOVER_SHARE = 0.9
"""Of the children that have hyperparameters of both parents."""


class Searcher(SearchMethod):
    """Proposes children of the best trials."""

    TAKES = ALL_OF_OPTUNA
    TAKES_OBJECTIVES = True

    def propose(self, number: int) -> Iterator[Point]:
        generator = self.generator(number, 3)
        fidelity = self.known.fidelity(MIN_TRIALS_FOR_PARENTS)
        parents = [] if fidelity is None else self._parents(fidelity)
        for _ in range(MODEL_ATTEMPTS if parents else 0):
            with contextlib.suppress(InvalidPoint):
                yield self.known.encoding.point(self._child(parents, generator), generator)
        yield from self.random_points(number)

    def _parents(self, fidelity: int) -> list[Array]:
        """The coordinates of the best trials at an epoch that did not go wrong, the best first."""
        order, rows = BestFirst(), self.known.rows
        for index, trial in enumerate(self.known.trials):
            if (row := trial.epochs.get(fidelity)) is None or trial.status in BAD:
                continue
            losses = self.record.objectives.losses(row.score, row.metrics)
            if rows[index] is not None and np.isfinite(losses[1:]).all():
                order.add(index, losses)
        best = (rows[index] for index in order.first(MOST_PARENTS))
        return [row for row in best if row is not None]

    def _child(self, parents: list[Array], generator: np.random.Generator) -> Array:
        """[hyperparameters]; one that the child's branch of the space has, and its parents lack, is nan. Of
        those that mutate, half move by about a tenth of the range, the others are drawn anew."""
        first, second = (parents[generator.integers(len(parents), size=2).min()] for _ in range(2))
        is_of_second = generator.random(len(first)) < (0.5 if generator.random() < CROSSOVER_SHARE else 0.0)
        child: Array = np.where(is_of_second, second, first)
        for place, axis in enumerate(self.known.encoding.axes.values()):
            if generator.random() >= 1 / len(child) or np.isnan(child[place]):
                continue
            own, moves = child[place : place + 1], generator.random() >= 0.5
            child[place : place + 1] = (
                axis.moved(own, np.full(1, 0.1), generator) if moves else axis.drawn(generator, 1)
            )
        return child
