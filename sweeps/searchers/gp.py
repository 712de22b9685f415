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
from sweeps.search.gaussian_process import Array, RefittedGaussianProcess
from sweeps.search.known_trials import Result
from sweeps.search.search_method import ALL_OF_OPTUNA, SearchMethod
from sweeps.space.point import InvalidPoint, Point, Space

MIN_RESULTS_FOR_MODEL = 8
FAR_CANDIDATES = 1000
"""Random points of which, before there is a model, the one furthest from all trials is taken: a maximin
design (Johnson et al., 1990, https://doi.org/10.1016/0378-3758(90)90122-B). With 30 of them the searches
found less."""
RANDOM_SHARE = 0.15
"""Of the proposals that stay random, in case the model is wrong."""
CONFIDENCE = 2.0
"""Standard deviations of the upper confidence bound."""
CANDIDATES = 300
"""Random ones, and as many near the best trials."""
CLIMBING, NEIGHBOURS, SPREADS = 10, 50, (0.1, 0.05, 0.02, 0.01)
"""So many of the best candidates get so many neighbours each, in rounds: about so far away, or twice, as a
share of a range. Without them the searches found less: a random candidate is far below the highest bound."""


class Searcher(SearchMethod):
    """Proposes the candidate that may be the best at the end."""

    TAKES = ALL_OF_OPTUNA
    PACKAGES = ("scipy",)

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        super().__init__(config, space, record)
        self._growing = RefittedGaussianProcess(MIN_RESULTS_FOR_MODEL, self._data)

    def propose(self, number: int) -> Iterator[Point]:
        generator = self.generator(number, 1)
        results = self.known.results()
        candidates: Iterable[Array] = ()
        if len(results) < MIN_RESULTS_FOR_MODEL:
            candidates = self._far_candidates(generator)
        elif generator.random() >= RANDOM_SHARE:
            candidates = self._best_candidates(number, results, generator)
        for coordinates in candidates:
            with contextlib.suppress(InvalidPoint):
                yield self.known.encoding.point(coordinates, generator)
        yield from self.random_points(number)

    @property
    def _tried(self) -> list[Array]:
        """The coordinates of all trials."""
        return [row for row in self.known.rows if row is not None]

    def _without_result(self, results: Sequence[Result]) -> list[Array]:
        """The coordinates of the trials that have not come to a rung: without them, all that are proposed at
        a time would be the same point, but on a grid, of which each point is taken once."""
        known, trials = {result.trial for result in results}, self.known.trials
        return [
            row
            for index, row in enumerate(self.known.rows)
            if row is not None and index not in known and trials[index].status == "unfinished"
        ]

    def _far_candidates(self, generator: np.random.Generator) -> Array:
        """[candidates, hyperparameters], the one furthest from all trials first."""
        candidates = self.known.encoding.drawn(generator, FAR_CANDIDATES)
        if not (tried := self._tried):
            return candidates
        rows, others = map(self.known.encoding.features, (candidates, np.array(tried)))
        nearest = ((rows[:, None] - others[None]) ** 2).sum(axis=2).min(axis=1)
        return candidates[np.argsort(-nearest, kind="stable")]

    def _best_candidates(
        self, number: int, results: Sequence[Result], generator: np.random.Generator
    ) -> Array:
        """[candidates, hyperparameters], the one with the highest upper confidence bound first."""
        model, tried = self._growing.fit(results), set(_keys(self._tried))
        likely = self._feasibility.likely(number)
        if self._grid is None and (waiting := self._without_result(results)):
            model.believe(self._inputs(np.array(waiting), np.ones(len(waiting))))

        def bounded(rows: Array) -> tuple[Array, Array]:
            """Those that were not tried, and their upper confidence bounds: -inf of one that hardly fits, or
            all would climb to where nothing does."""
            rows = rows[[key not in tried for key in _keys(rows)]]
            if not len(rows):
                return rows, np.empty(0)
            mean, deviation = model.predict(self._inputs(rows, np.ones(len(rows))))
            return rows, np.where(likely(rows), mean + CONFIDENCE * deviation, -np.inf)

        candidates, bounds = bounded(self._candidates(results, generator))
        for spread in () if self._grid is not None else SPREADS:
            best = candidates[np.argsort(-bounds, kind="stable")[:CLIMBING]]
            near, theirs = bounded(self._neighbours(best, spread, generator))
            candidates, bounds = np.concatenate([candidates, near]), np.concatenate([bounds, theirs])
        return candidates[np.argsort(-bounds, kind="stable")]

    @cached_property
    def _grid(self) -> Array | None:
        """[points, hyperparameters] of a small space, whose points are all candidates."""
        return self.known.encoding.grid() if self.space.size() <= 1000 else None

    def _candidates(self, results: Sequence[Result], generator: np.random.Generator) -> Array:
        """[candidates, hyperparameters], those tried before among them."""
        if self._grid is not None:
            return self._grid
        drawn = self.known.encoding.drawn(generator, CANDIDATES)
        if not (parents := self._parents(results)).size:
            return drawn
        # Points of a conditional space take a tenth of a millisecond each.
        count = 50 if self.space.is_conditional else CANDIDATES
        chosen = parents[generator.integers(len(parents), size=count)]
        return np.concatenate([drawn, self.known.encoding.near(chosen, generator)])

    def _neighbours(self, rows: Array, spread: float, generator: np.random.Generator) -> Array:
        """[points, hyperparameters], some near each."""
        count = 2 if self.space.is_conditional else NEIGHBOURS
        return self.known.encoding.near(np.repeat(rows, count, axis=0), generator, (spread, 2 * spread))

    def _parents(self, results: Sequence[Result]) -> Array:
        """[at most 8, hyperparameters], the best trials that did not diverge."""
        best: dict[int, float] = {}
        diverged = _diverged(results)
        for result in results:
            if result.trial not in diverged:
                best[result.trial] = max(result.score, best.get(result.trial, -math.inf))
        rows = self.known.rows
        return np.array([rows[index] for index in heapq.nlargest(8, best, key=best.__getitem__)])

    def _data(self, results: Sequence[Result]) -> tuple[Array, Array, Array]:
        """Inputs, scores and epochs for the model; a trial that diverged is as bad as the worst of them at
        the first rung, whatever it scored before."""
        diverged = _diverged(results)
        kept = [r for r in results if r.trial not in diverged or r.score == -math.inf]
        kept.sort(key=lambda result: result.epoch)
        epochs = np.array([result.epoch for result in kept])
        rows, scores = self.known.rows, np.array([result.score for result in kept])
        inputs = self._inputs(np.array([rows[result.trial] for result in kept]), self._progress(epochs))
        return inputs, scores, epochs

    def _inputs(self, coordinates: Array, progress: Array) -> Array:
        return np.column_stack([self.known.encoding.features(coordinates), progress])

    def _progress(self, epochs: Array) -> Array:
        """0 of the first epoch, 1 of the last one."""
        most = self.config.max_epochs
        return np.log(epochs) / math.log(most) if most > 1 else np.ones(len(epochs))


def _diverged(results: Sequence[Result]) -> set[int]:
    """Trials that diverged, at the last or after other results."""
    return {result.trial for result in results if result.score == -math.inf}


def _keys(rows: Array | Sequence[Array]) -> list[bytes]:
    """Equal for rows of the same point, whatever the rounding errors."""
    return [row.tobytes() for row in np.round(rows, 9) + 0.0]
