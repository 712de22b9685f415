"""BOHB's model: kernel densities of the good and the bad trials at the highest rung with enough trials.

Falkner et al., 2018, https://arxiv.org/abs/1807.01774. The model is that of the authors' hpbandster, which
Ray's TuneBOHB wraps (a test compares them); the package itself needs a compiler, and is not maintained.
TuneBOHB loses its results with the driver; here they are read from the record. Other differences from both:

- quantized ranges keep their steps, and choices their own types (TuneBOHB drops the first with a
  warning, and returns numpy's strings for the second);
- a hyperparameter never collapses to one value: hpbandster's least bandwidth, 0.001 of the range, can't
  leave a whole number on which all good trials agree by chance, so here each hyperparameter's bandwidth
  reaches its neighbours;
- a choice that no good trial has does not count as a perfect one (statsmodels, which hpbandster uses, counts
  the choices in the data, and divides by one less: automl/HpBandSter#100).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.record.record import Record
from sweeps.search.known_trials import KnownTrials
from sweeps.search.search_method import MODEL_ATTEMPTS, SearchMethod
from sweeps.space.domain import Domain
from sweeps.space.flat import FlatSpace
from sweeps.space.numeric_range import Array
from sweeps.space.point import Point

# The defaults of hpbandster.
GOOD_SHARE = 0.15
RANDOM_SHARE = 1 / 3
CANDIDATES = 64
BANDWIDTH_FACTOR = 3
"""Candidates spread so many times as far as the density of the good trials does."""
LEAST_DENSITY = 1e-32

LEAST_BANDWIDTH = 0.01
"""Of a range, whose length is 1 in the model."""
LEAST_SHARE = 0.1
"""Share of candidates with any choice instead of that of a good trial."""


class Searcher(SearchMethod):
    """Proposes the most promising of 64 points near good trials, and every third time a random one."""

    TAKES = frozenset({"finite", "continuous"})
    SCHEDULERS = ("bohb",)
    PACKAGES = ("scipy",)

    def propose(self, number: int) -> Iterator[Point]:
        assert isinstance(self.space, FlatSpace), "the plan refuses other spaces by TAKES"
        columns, encoding = Columns.from_domains(self.space.domains), self.known.encoding
        randoms, model = self.random_points(number), None
        if (fidelity := self.known.fidelity(2 * columns.least_good)) is not None:
            model = Model.fit(columns, results_at(self.known, self.record, fidelity))
        generator = self.generator(number, 4)
        for _ in range(MODEL_ATTEMPTS if model is not None else 0):
            if model is None or generator.random() < RANDOM_SHARE:
                yield from itertools.islice(randoms, 1)
            else:
                row = np.zeros(len(encoding.axes))
                row[columns.varying] = model.best_candidate(generator) / np.maximum(columns.choices - 1, 1)
                yield encoding.point(row, generator)
        yield from randoms


def results_at(known: KnownTrials, record: Record, fidelity: int) -> list[tuple[Array, float]]:
    """Coordinates and loss of the trials that reached an epoch, and of those that diverged or are infeasible
    (loss: infinite); those of earlier sweeps first."""
    found = []
    for trial, coordinates in zip(known.trials, known.rows, strict=True):
        row = trial.epochs.get(fidelity)
        if coordinates is not None and trial.status in ("diverged", "infeasible"):
            found.append((coordinates, math.inf))
        elif coordinates is not None and row is not None and math.isfinite(row.score):
            found.append((coordinates, -record.objective.sign * row.score))
    return found


@dataclass(frozen=True)
class Columns:
    """The hyperparameters that the model has, of those of a space: the ones with more than one value."""

    varying: list[int]
    """Their places in a row of coordinates."""
    choices: Array
    """[varying], number of choices; 0 of a range."""
    least_bandwidths: Array
    """[varying]."""

    @classmethod
    def from_domains(cls, domains: Mapping[str, Domain]) -> Columns:
        varying = {place: each for place, each in enumerate(domains.values()) if each.size() > 1}
        choices = np.array([len(domain.choices or ()) for domain in varying.values()], np.float64)
        return cls([*varying], choices, np.array([*map(_least_bandwidth, varying.values())]))

    @property
    def least_good(self) -> int:
        """Good trials that the model needs, and as many bad ones: more than hyperparameters."""
        return len(self.varying) + 1


def _least_bandwidth(domain: Domain) -> float:
    if domain.choices is not None:
        return LEAST_SHARE
    # A third of a step: the spread of three bandwidths is one.
    return max(LEAST_BANDWIDTH, 1 / (3 * max(1, domain.size() - 1)))


@dataclass(frozen=True)
class Density:
    """A product of kernels: Gaussian, and Aitchison-Aitken for choices."""

    rows: Array
    """[trials, hyperparameters]."""
    bandwidths: Array
    """[hyperparameters]; of a choice, the probability of all others together."""
    choices: Array
    """[hyperparameters], number of choices; 0 of a range."""

    @classmethod
    def fit(cls, rows: Array, columns: Columns) -> Density:
        """With bandwidths by the normal reference rule of thumb, as statsmodels has it."""
        count, dimensions = rows.shape
        bandwidths = 1.06 * rows.std(axis=0) * count ** (-1 / (4 + dimensions))
        bandwidths = np.maximum(bandwidths, columns.least_bandwidths)
        choices = columns.choices
        most = np.where(choices > 0, (choices - 1) / np.maximum(choices, 1), np.inf)
        return cls(rows, np.minimum(bandwidths, most), choices)  # at the most, all choices are equally likely

    def at(self, points: Array) -> Array:
        """[points] of [points, hyperparameters]."""
        gaps, widths = points[:, None] - self.rows, self.bandwidths
        gaussian = np.exp(-((gaps / widths) ** 2) / 2) / (math.sqrt(2 * math.pi) * widths)
        choice = np.where(gaps == 0, 1 - widths, widths / np.maximum(self.choices - 1, 1))
        density: Array = np.where(self.choices > 0, choice, gaussian).prod(axis=2).mean(axis=1)
        return density


@dataclass(frozen=True)
class Model:
    """The densities of the good trials and of the bad ones."""

    good: Density
    bad: Density

    @classmethod
    def fit(cls, columns: Columns, results: Sequence[tuple[Array, float]]) -> Model | None:
        """Of coordinates and losses, a choice by its number; None where they are too few."""
        if len(results) < 2 * columns.least_good:
            return None
        best_first = sorted(results, key=lambda each: each[1])
        rows = np.array([row for row, _ in best_first])[:, columns.varying]
        rows = np.where(columns.choices > 0, np.rint(rows * (columns.choices - 1)), rows)
        good = max(columns.least_good, int(GOOD_SHARE * len(rows)))
        return cls(Density.fit(rows[:good], columns), Density.fit(rows[good:], columns))

    def best_candidate(self, generator: np.random.Generator) -> Array:
        """[varying], the most likely one to be good of 64 near the good trials."""
        from scipy.special import ndtr, ndtri  # half a second of imports

        rows, choices, widths = self.good.rows, self.good.choices, self.good.bandwidths
        near = rows[generator.integers(len(rows), size=CANDIDATES)]
        # Of a range, from the part of a normal distribution between 0 and 1.
        spread = BANDWIDTH_FACTOR * widths
        low, high = ndtr(-near / spread), ndtr((1 - near) / spread)
        shares = low + generator.random(near.shape) * (high - low)
        inside = np.clip(near + spread * ndtri(shares), 0, 1)
        others = np.floor(generator.random(near.shape) * choices)
        chosen = np.where(generator.random(near.shape) < 1 - widths, near, others)
        candidates = np.where(choices > 0, chosen, inside)
        good, bad = (np.maximum(each.at(candidates), LEAST_DENSITY) for each in (self.good, self.bad))
        best: Array = candidates[np.argmax(good / bad)]
        return best
