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
from typing import Any

import numpy as np
from optuna.trial import FixedTrial

from sweeps.common.yaml_values import ParamValue
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
        columns = Columns.from_domains(self.space.domains)
        randoms, model = self.random_points(number), None
        if (fidelity := self.known.fidelity(2 * columns.least_good)) is not None:
            model = Model.fit(columns, results_at(self.known, self.record, fidelity))
        generator = self.generator(number, 4)
        for _ in range(MODEL_ATTEMPTS if model is not None else 0):
            if model is None or generator.random() < RANDOM_SHARE:
                yield from itertools.islice(randoms, 1)
            else:
                yield self.space.suggest(FixedTrial(columns.params(model.best_candidate(generator))))
        yield from randoms


def results_at(
    known: KnownTrials, record: Record, fidelity: int
) -> list[tuple[Mapping[str, ParamValue], float]]:
    """Params and loss of the trials that reached an epoch, those of earlier sweeps included, and of those
    that diverged or are infeasible (loss: infinite)."""
    sign, earlier = -record.objective.sign, len(record.earlier.trials)
    both = list(zip(known.trials, known.points, strict=True))
    points = {trial.number: point for trial, point in both[earlier:]}
    reached = [(points[number], sign * score) for number, score in record.scores_at(fidelity).items()]
    before = [(p, sign * t.epochs[fidelity].score) for t, p in both[:earlier] if fidelity in t.epochs]
    bad = [(point, math.inf) for trial, point in both if trial.status in ("diverged", "infeasible")]
    return [(point.params, loss) for point, loss in (*before, *reached, *bad) if point is not None]


@dataclass(frozen=True)
class Columns:
    """The hyperparameters of a space as numbers: a range as 0 to 1, choices by their position."""

    domains: Mapping[str, Domain]
    varying: tuple[str, ...]
    """Hyperparameters with more than one value, which the model has."""
    choices: Array
    """[varying], number of choices; 0 of a range."""
    least_bandwidths: Array
    """[varying]."""

    @classmethod
    def from_domains(cls, domains: Mapping[str, Domain]) -> Columns:
        varying = {name: domain for name, domain in domains.items() if domain.size() > 1}
        choices = np.array([len(domain.choices or ()) for domain in varying.values()], np.float64)
        return cls(domains, tuple(varying), choices, np.array([*map(_least_bandwidth, varying.values())]))

    @property
    def least_good(self) -> int:
        """Good trials that the model needs, and as many bad ones: more than hyperparameters."""
        return len(self.varying) + 1

    def row(self, params: Mapping[str, ParamValue]) -> list[float]:
        """A trial's params."""
        domains = ((params[name], self.domains[name]) for name in self.varying)
        return [
            float(range_.share(value)) if (range_ := domain.range) else (domain.choices or []).index(value)
            for value, domain in domains
        ]

    def params(self, row: Array) -> dict[str, Any]:
        """A trial's params, with choices and steps."""
        found = {name: (domain.values() or [None])[0] for name, domain in self.domains.items()}
        for name, number in zip(self.varying, row, strict=True):
            domain = self.domains[name]
            if domain.choices is not None:
                found[name] = domain.choices[int(number)]
            elif domain.range is not None:
                found[name] = domain.range.nearest(float(domain.range.at(number)))
        return found


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
    def fit(cls, columns: Columns, results: Sequence[tuple[Mapping[str, ParamValue], float]]) -> Model | None:
        """Of params and losses; None where they are too few."""
        if len(results) < 2 * columns.least_good:
            return None
        best_first = sorted(results, key=lambda each: each[1])
        rows = np.array([columns.row(params) for params, _ in best_first], np.float64)
        good = max(columns.least_good, int(GOOD_SHARE * len(rows)))
        return cls(Density.fit(rows[:good], columns), Density.fit(rows[good:], columns))

    def best_candidate(self, generator: np.random.Generator) -> Array:
        """[hyperparameters], the most likely one to be good of 64 near the good trials."""
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
