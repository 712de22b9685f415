"""A Gaussian process over hyperparameters and epochs: proposes what may score best at the end.

All rungs are modelled together (`search/gaussian_process.py`), so that many trials of few epochs and a few
long ones teach the same model. The next trial is the candidate with the highest upper confidence bound at the
last epoch (Srinivas et al., 2010, https://arxiv.org/abs/0912.3995), of random candidates and of neighbours of
the best trials; some proposals stay random. The first trials fill the space.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.candidates import random_points
from sweeps.search.gaussian_process import Array, GaussianProcess
from sweeps.search.record_searcher import RecordSearcher
from sweeps.search.rungs import rungs
from sweeps.space.domain import Form
from sweeps.space.encoding import Encoding
from sweeps.space.point import InvalidPoint, Point, Space
from sweeps.space.replay import optuna_point

TAKES: frozenset[Form] = frozenset({"finite", "continuous", "conditional", "several"})
SCHEDULERS = ("halving", "asha", "hyperband", "none")
PACKAGES = ("scikit-learn", "scipy")

ENOUGH = 8
"""Results from which on there is a model."""
SPREAD = 30
"""Random points of which, before, the one furthest from all trials is taken."""
RANDOM_SHARE = 0.15
"""Of the proposals that stay random, in case the model is wrong."""
CONFIDENCE = 2.0
"""Standard deviations of the upper confidence bound."""
CANDIDATES = 200
"""Random ones, and as many near the best trials."""
PARENTS = 8
"""Best trials whose neighbours are candidates."""
MOST_RESULTS = 200
"""Results that the model is fitted to: its time grows with their cube."""
ATTEMPTS = 100
"""Candidates before a random point is taken instead of duplicates."""
REFIT = 1.15
"""The hyperparameters of the model are fitted again when there are so many times the results."""


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """A searcher with a model of the record's trials."""
    return RecordSearcher(record, space, Proposer(config, space, record).propose, config)


@dataclass(frozen=True)
class Result:
    """The score of a trial at a rung or at the end."""

    trial: int
    """Its row."""
    epoch: int
    score: float
    """Larger is better; -inf of a trial that diverged."""


class Proposer:
    """What is known of the trials, and the candidates that follow from it; the record alone decides."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        self._config, self._space, self._record = config, space, record
        self._epochs = [*rungs(config), config.max_epochs]
        self._read = dict.fromkeys(self._epochs, 0)
        self._rows: list[Array | None] = []
        """Coordinates of the trials: those of earlier sweeps, then the searched ones. None of one that is not
        a point of the space, which was changed with --force."""
        self._results: list[Result] = []
        """In the order of the reports."""
        self._diverged: set[int] = set()
        self._fitted = 0, np.empty(0)
        """Number of results, and the hyperparameters of the model that was fitted to them."""

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding.of(self._space)

    def propose(self, number: int) -> Iterator[Point]:
        """Candidates for the trial of a number, best first."""
        generator = np.random.default_rng(np.random.SeedSequence((self._config.seed, number, 1)))
        self._update()
        candidates: Iterable[Array] = ()
        if len(self._results) < ENOUGH:
            candidates = self._far_candidates(generator)
        elif generator.random() >= RANDOM_SHARE:
            candidates = self._best_candidates(generator)[:ATTEMPTS]
        for coordinates in candidates:
            with contextlib.suppress(InvalidPoint):
                yield self._encoding.point(coordinates, generator)
        yield from random_points(self._space, self._config.seed, number)

    def _update(self) -> None:
        """Read what the record has got since."""
        first = not self._rows
        self._rows += [self._coordinates(trial) for trial in self._trials[len(self._rows) :]]
        earlier, new = self._record.earlier.trials, []
        if first:
            both = itertools.product(enumerate(earlier), self._epochs)
            new += [(0.0, row, epoch, trial) for (row, trial), epoch in both if epoch in trial.epochs]
        for epoch in self._epochs:
            scores = self._record.scores_at(epoch)
            for number in itertools.islice(scores, self._read[epoch], None):
                row, trial = len(earlier) + self._record.nth(number), self._record.trials[number]
                new.append((trial.epochs[epoch].time, row, epoch, trial))
            self._read[epoch] = len(scores)
        for row, trial in enumerate(self._trials):
            if trial.status == "diverged" and row not in self._diverged:
                self._diverged.add(row)
                moment = max((reported.time for reported in trial.epochs.values()), default=0.0)
                new.append((moment, row, 0, trial))
        sign = self._record.objective.sign
        for _, row, epoch, trial in sorted(new, key=lambda each: each[:3]):
            if self._rows[row] is not None:
                score = sign * trial.epochs[epoch].score if epoch else -math.inf
                self._results.append(Result(row, epoch or self._epochs[0], score))

    @property
    def _trials(self) -> list[TrialRow]:
        return [*self._record.earlier.trials, *self._record.searched]

    def _coordinates(self, trial: TrialRow) -> Array | None:
        with contextlib.suppress(LookupError, ValueError):
            return self._encoding.coordinates(optuna_point(self._space, trial.point))
        return None

    def _stacked(self, rows: Sequence[int]) -> Array:
        """[rows, hyperparameters], the coordinates of trials."""
        return np.array([self._rows[row] for row in rows])

    def _far_candidates(self, generator: np.random.Generator) -> Array:
        """[candidates, hyperparameters], the one furthest from all trials first."""
        candidates = self._encoding.drawn(generator, SPREAD)
        if not (known := [row for row in self._rows if row is not None]):
            return candidates
        rows, others = self._encoding.features(candidates), self._encoding.features(np.array(known))
        nearest = ((rows[:, None] - others[None]) ** 2).sum(axis=2).min(axis=1)
        return candidates[np.argsort(-nearest, kind="stable")]

    def _best_candidates(self, generator: np.random.Generator) -> Array:
        """[candidates, hyperparameters], the one with the highest upper confidence bound first."""
        model = self._model()
        best: dict[int, float] = {}
        for result in self._results:
            best[result.trial] = max(result.score, best.get(result.trial, -math.inf))
        parents = self._stacked(heapq.nlargest(PARENTS, best, key=best.__getitem__))
        chosen = parents[generator.integers(len(parents), size=CANDIDATES)]
        drawn = self._encoding.drawn(generator, CANDIDATES)
        candidates = np.concatenate([drawn, self._encoding.near(chosen, generator)])
        mean, deviation = model.predict(self._inputs(candidates, np.ones(len(candidates))))
        return candidates[np.argsort(-(mean + CONFIDENCE * deviation), kind="stable")]

    def _model(self) -> GaussianProcess:
        """Of all results, with hyperparameters that were fitted to the first ones, at most a few less."""
        fit_to = ENOUGH
        while (larger := math.ceil(fit_to * REFIT)) <= len(self._results):
            fit_to = larger
        if self._fitted[0] != fit_to:
            self._fitted = fit_to, GaussianProcess(*self._data(self._results[:fit_to])).hyperparameters
        return GaussianProcess(*self._data(self._results), self._fitted[1])

    def _data(self, results: Sequence[Result]) -> tuple[Array, Array]:
        """Inputs and scores for the model: of many results those of the most epochs, then the last ones. A
        trial that diverged is as bad as the worst at the first rung, whatever it scored before."""
        diverged = {result.trial for result in results if result.score == -math.inf}
        kept = [r for r in results if r.trial not in diverged or r.score == -math.inf]
        kept = sorted(kept, key=lambda result: result.epoch)[-MOST_RESULTS:]
        rows = self._stacked([result.trial for result in kept])
        progress = np.array([self._progress(result.epoch) for result in kept])
        scores = np.array([result.score for result in kept])
        worst = scores[np.isfinite(scores)].min(initial=0.0 if np.isinf(scores).all() else math.inf)
        return self._inputs(rows, progress), np.maximum(scores, worst)

    def _inputs(self, coordinates: Array, progress: Array) -> Array:
        return np.column_stack([self._encoding.features(coordinates), progress])

    def _progress(self, epoch: int) -> float:
        """0 of the first epoch, 1 of the last one."""
        return math.log(epoch) / math.log(self._config.max_epochs) if self._config.max_epochs > 1 else 1.0
