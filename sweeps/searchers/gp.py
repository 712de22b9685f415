"""A Gaussian process over hyperparameters and epochs: proposes what may score best at the end.

All rungs are modelled together (`search/gaussian_process.py`), so that many trials of few epochs and a few
long ones teach the same model. The next trial is the candidate with the highest upper confidence bound at the
last epoch (Srinivas et al., 2010, https://arxiv.org/abs/0912.3995), of random candidates and of neighbours of
the best trials, or of all points of a small space; some proposals stay random. The first trials fill the
space.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.candidates import random_points
from sweeps.search.feasibility import Feasibility
from sweeps.search.gaussian_process import Array, GaussianProcess
from sweeps.search.record_searcher import RecordSearcher
from sweeps.search.representatives import representatives
from sweeps.search.rung_results import Result, RungResults
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
SPREAD = 1000
"""Random points of which, before, the one furthest from all trials is taken: a maximin design (Johnson et
al., 1990, https://doi.org/10.1016/0378-3758(90)90122-B). With 30 of them the searches found less."""
RANDOM_SHARE = 0.15
"""Of the proposals that stay random, in case the model is wrong."""
CONFIDENCE = 2.0
"""Standard deviations of the upper confidence bound."""
CANDIDATES = 200
"""Random ones, and as many near the best trials."""
NEIGHBOURS = 50
"""Near the best trials of a conditional space, whose points take a tenth of a millisecond each."""
PARENTS = 8
"""Best trials whose neighbours are candidates."""
MOST_RESULTS = 200
"""Results that the model is fitted to: its time grows with their cube."""
SMALL_SPACE = 1000
"""Points up to which all are candidates."""
REFIT = 1.15
"""The hyperparameters of the model are fitted again when there are so many times the results."""


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """A searcher with a model of the record's trials."""
    propose = Proposer(config, space, record).propose
    return RecordSearcher(record, space, Feasibility(config, space, record).constrained(propose), config)


class Proposer:
    """What is known of the trials, and the candidates that follow from it; the record alone decides."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        self._config, self._space = config, space
        self._known = RungResults(record, [*rungs(config), config.max_epochs])
        self._rows: list[Array | None] = []
        """Coordinates of the trials, in the order of the known ones. None of one that is not a point of the
        space, which was changed with --force."""
        self._tried: set[bytes] = set()
        """Keys of these coordinates."""
        self._results: list[Result] = []
        """Of the points of the space, in the order of the reports."""
        self._fitted = 0, np.empty(0)
        """Number of results, and the hyperparameters of the model that was fitted to them."""

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding.of(self._space)

    def propose(self, number: int) -> Iterator[Point]:
        """Candidates for the trial of a number, best first."""
        generator = np.random.default_rng(np.random.SeedSequence((self._config.seed, number, 1)))
        self._read()
        candidates: Iterable[Array] = ()
        if len(self._results) < ENOUGH:
            candidates = self._far_candidates(generator)
        elif generator.random() >= RANDOM_SHARE:
            candidates = self._best_candidates(generator)
        for coordinates in candidates:
            with contextlib.suppress(InvalidPoint):
                yield self._encoding.point(coordinates, generator)
        yield from random_points(self._space, self._config.seed, number)

    def _read(self) -> None:
        """Take in what the record has got since."""
        rows = [self._coordinates(trial) for trial in self._known.trials[len(self._rows) :]]
        self._rows += rows
        self._tried.update(_keys([row for row in rows if row is not None]))
        self._results += [result for result in self._known.new() if self._rows[result.trial] is not None]

    def _coordinates(self, trial: TrialRow) -> Array | None:
        with contextlib.suppress(LookupError, ValueError):
            optuna_point(self._space, trial.point)
            return self._encoding.coordinates(trial.point)
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
        candidates = self._candidates(generator)
        by_key = dict(zip(_keys(candidates), candidates, strict=True))
        untried = [row for key, row in by_key.items() if key not in self._tried]
        if not untried:
            return candidates[:0]
        candidates = np.array(untried)
        mean, deviation = self._model().predict(self._inputs(candidates, np.ones(len(candidates))))
        return candidates[np.argsort(-(mean + CONFIDENCE * deviation), kind="stable")]

    @cached_property
    def _grid(self) -> Array | None:
        """[points, hyperparameters] of a small space."""
        return self._encoding.grid() if self._space.size() <= SMALL_SPACE else None

    def _candidates(self, generator: np.random.Generator) -> Array:
        """[candidates, hyperparameters], those tried before among them."""
        if self._grid is not None:
            return self._grid
        drawn = self._encoding.drawn(generator, CANDIDATES)
        if not (parents := self._parents()).size:
            return drawn
        count = NEIGHBOURS if self._space.is_conditional else CANDIDATES
        chosen = parents[generator.integers(len(parents), size=count)]
        return np.concatenate([drawn, self._encoding.near(chosen, generator)])

    def _parents(self) -> Array:
        """[at most PARENTS, hyperparameters], the best trials that did not diverge."""
        best: dict[int, float] = {}
        diverged = _diverged(self._results)
        for result in self._results:
            if result.trial not in diverged:
                best[result.trial] = max(result.score, best.get(result.trial, -math.inf))
        return self._stacked(heapq.nlargest(PARENTS, best, key=best.__getitem__))

    def _model(self) -> GaussianProcess:
        """Of all results, with hyperparameters that were fitted to the first ones, at most a few less."""
        fit_to = ENOUGH
        while (larger := math.ceil(fit_to * REFIT)) <= len(self._results):
            fit_to = larger
        if self._fitted[0] != fit_to:
            self._fitted = fit_to, GaussianProcess(*self._data(self._results[:fit_to])).hyperparameters
        return GaussianProcess(*self._data(self._results), self._fitted[1])

    def _data(self, results: Sequence[Result]) -> tuple[Array, Array]:
        """Inputs and scores for the model; a trial that diverged is as bad as the worst of them at the first
        rung, whatever it scored before."""
        diverged = _diverged(results)
        kept = [r for r in results if r.trial not in diverged or r.score == -math.inf]
        kept.sort(key=lambda result: result.epoch)
        epochs = np.array([result.epoch for result in kept])
        scores = np.array([result.score for result in kept])
        inputs = self._inputs(self._stacked([result.trial for result in kept]), self._progress(epochs))
        if len(kept) > MOST_RESULTS:
            chosen = representatives(inputs, epochs, MOST_RESULTS)
            inputs, scores = inputs[chosen], scores[chosen]
        worst = scores[np.isfinite(scores)].min(initial=0.0 if np.isinf(scores).all() else math.inf)
        return inputs, np.maximum(scores, worst)

    def _inputs(self, coordinates: Array, progress: Array) -> Array:
        return np.column_stack([self._encoding.features(coordinates), progress])

    def _progress(self, epochs: Array) -> Array:
        """0 of the first epoch, 1 of the last one."""
        most = self._config.max_epochs
        return np.log(epochs) / math.log(most) if most > 1 else np.ones(len(epochs))


def _diverged(results: Sequence[Result]) -> set[int]:
    """Trials that diverged, at the last or after other results."""
    return {result.trial for result in results if result.score == -math.inf}


def _keys(rows: Array | Sequence[Array]) -> list[bytes]:
    """Equal for rows of the same point, whatever the rounding errors."""
    return [row.tobytes() for row in np.round(rows, 9) + 0.0]
