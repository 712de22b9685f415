"""What the user believes: where good points lie. Proposals begin there, and the belief fades as trials come.

A share of the proposals are those of the searcher with the hyperparameters of the prior drawn near it; so it
holds for every searcher, and for a prior of some of the hyperparameters. The share falls with the number of
trials, as the prior's exponent in piBO (Hvarfner et al., 2022, https://arxiv.org/abs/2204.11051), and follows
what trials near the prior have scored beside the others, as in PriorBand (Mallik et al., 2023,
https://arxiv.org/abs/2306.12370): a misleading one costs a few trials.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.common.formatting import rounded
from sweeps.common.param_types import are_same, plain, shown
from sweeps.common.yaml_values import hyperparameter, nearest
from sweeps.search.known_trials import KnownTrials
from sweeps.space.numeric_range import Array, are_numbers, in_full
from sweeps.space.optuna_space import Axis, Encoding
from sweeps.space.point import InvalidPoint, Point, Space

SPREAD = 0.1
"""Standard deviation of a prior without one of its own, as a share of the range on its scale."""
CHOICE_SHARE = 0.75
"""Of the draws that have the choice of the prior; the others have any."""
FIRST_SHARE = 0.4
"""Of the first proposals that are drawn near the prior, before anything is known of it. On the tasks to fit
of benchmarks.search the regret after 160 epochs was 0.70 of that without a prior where it was the best of 25
random points, 0.38 where it was near the best of 500, and 1.03 where it was the worst of 25 (72 searches
each). With 0.6, and with the prior as a weight of gp's bound in place of a share, it was no less."""
HALF_LIFE = 25
"""Trials after which the share is halved."""
LEAST_SHARE = 1e-4
"""Below this share the prior has faded, and costs no time."""
NEAR = 2.0
"""Trials whose mean squared distance from the prior, in standard deviations, is at most this are near it."""
ATTEMPTS = 5
"""Draws near the prior before the searcher's own proposals."""


@dataclass(frozen=True)
class Belief:
    """About where a hyperparameter has its best value."""

    axis: Axis
    center: float
    """On the axis."""
    spread: float
    """Standard deviation there; of a choice without an order it has no meaning."""

    def __str__(self) -> str:
        value, range_ = self.axis.value(self.center), self.axis.range
        if self.axis.choices:
            return shown(value)
        given = range_.at(self.center)
        near = f"{given:g}"
        if not math.isclose(given, value, rel_tol=1e-6, abs_tol=1e-9):
            near += f" (between two steps; the first trial has {value:g})"
        if range_.is_log:
            factor = (range_.high / range_.low) ** self.spread
            return f"{near}, within a factor of {rounded(factor)}"
        return f"{near}, within {rounded(self.spread * (range_.high - range_.low))}"

    def drawn(self, generator: np.random.Generator) -> float:
        """A coordinate near it."""
        if not self.axis.is_ordered:
            is_named = generator.random() < CHOICE_SHARE
            return self.center if is_named else float(self.axis.drawn(generator, 1)[0])
        draws = self.center + self.spread * generator.standard_normal(20)
        return float(next((each for each in draws if 0 <= each <= 1), self.center))

    def distances(self, coordinates: Array) -> Array:
        """Squared, in standard deviations; nan of trials without the hyperparameter."""
        if not self.axis.is_ordered:
            other = np.where(coordinates == self.center, 0.0, 2 * NEAR)
            return np.where(np.isnan(coordinates), np.nan, other)
        squared: Array = ((coordinates - self.center) / self.spread) ** 2
        return squared


class Prior:
    """The beliefs of a sweep.

    Args:
        given: by hyperparameter, as the space names it.
        learns: whether what they scored counts.
    """

    def __init__(
        self, seed: int, given: Mapping[str, Any], space: Space, known: KnownTrials, *, learns: bool
    ) -> None:
        self._seed, self._space, self._known, self._learns = seed, space, known, learns
        self._beliefs = beliefs(given, known.encoding)[0]
        names = list(known.encoding.axes)
        self._places = [names.index(name) for name in self._beliefs]

    def first(self, number: int, proposed: Iterator[Point]) -> Iterator[Point]:
        """The candidates for the trial of a number, where its turn is one near the prior first."""
        faded = FIRST_SHARE * math.pow(0.5, number / HALF_LIFE)
        # An origin has what was not proposed: the defaults, say, which may lie near the prior.
        is_first = all(trial.origin or trial.number < 0 for trial in self._known.trials)
        if not self._beliefs or (faded < LEAST_SHARE and not is_first):
            yield from proposed
            return
        generator = np.random.default_rng(np.random.SeedSequence((self._seed, number, 5)))
        if generator.random() < (1.0 if is_first else self._share(faded)):
            for attempt in range(ATTEMPTS):
                if (own := next(proposed, None)) is None:
                    return
                with contextlib.suppress(InvalidPoint, LookupError):
                    is_center = is_first and not attempt
                    yield self._moved(own, generator, is_center=is_center)
                proposed = itertools.chain([own], proposed)
        yield from proposed

    def _moved(self, point: Point, generator: np.random.Generator, *, is_center: bool) -> Point:
        """A point with the hyperparameters of the prior at its center, or drawn near it."""
        drawn = [each.center if is_center else each.drawn(generator) for each in self._beliefs.values()]
        encoding = self._known.encoding
        row = encoding.coordinates(point)
        row[self._places] = drawn
        moved = encoding.point(row, generator)  # of a conditional space maybe on another branch
        if not self._space.is_conditional:
            believed = {name: moved.params[name] for name in self._beliefs}
            moved = dataclasses.replace(point, params={**point.params, **believed})
        return self._space.completed(moved, (int(generator.integers(2**32)),))

    def _are_near(self) -> npt.NDArray[np.bool_]:
        """[trials], whether each is near the prior."""
        rows = [np.full(len(self._known.encoding.axes), np.nan) if r is None else r for r in self._known.rows]
        if not rows:
            return np.zeros(0, bool)
        columns = np.array(rows)[:, self._places].T
        squared = np.array([b.distances(c) for b, c in zip(self._beliefs.values(), columns, strict=True)])
        counted = (~np.isnan(squared)).sum(axis=0)
        mean = np.nansum(squared, axis=0) / np.maximum(counted, 1)
        near: npt.NDArray[np.bool_] = (counted > 0) & (mean <= NEAR)
        return near

    def _share(self, faded: float) -> float:
        """Of the proposals that are drawn near the prior now, by what it is without results."""
        return min(1.0, faded * 2 * self._wins(self._are_near())) if self._learns else faded

    def _wins(self, are_near: npt.NDArray[np.bool_]) -> float:
        """How often a trial near the prior scores better than another one at the first rung; a half while
        nothing is known."""
        scores = self._known.scores_at_first_rung()
        near = np.array([score for trial, score in scores.items() if are_near[trial]])
        others = np.array([score for trial, score in scores.items() if not are_near[trial]])
        wins = (near[:, None] > others).sum() + 0.5 * (near[:, None] == others).sum()
        return float((wins + 1) / (near.size * others.size + 2))


def beliefs(given: Mapping[str, Any], encoding: Encoding) -> tuple[dict[str, Belief], dict[str, str]]:
    """What is believed of each hyperparameter; and why a belief does not fit the space, by its name.

    Args:
        given: by hyperparameter a value, or a value and a width as `VALUE:WIDTH` or a list of two numbers:
            a factor on a log scale, else a distance.
        encoding: of the space, whose ranges may have changed since.
    """
    found, faults = dict[str, Belief](), dict[str, str]()
    for name, each in given.items():
        if name not in encoding.axes:
            listed = f"Hyperparameters with a range: {', '.join(encoding.axes)}"
            near = nearest(name, encoding.axes)
            faults[name] = f"no hyperparameter of this search space.{near} {listed}"
            continue
        try:
            found[name] = _belief(encoding.axes[name], each)
        except ValueError as error:
            faults[name] = str(error)
    return found, faults


def described(given: Mapping[str, Any], encoding: Encoding) -> str:
    """`lr near 0.001, within a factor of 2; kind near b`, for the plan."""
    return "; ".join(f"{name} near {each}" for name, each in beliefs(given, encoding)[0].items())


def _belief(axis: Axis, given: Any) -> Belief:
    try:
        given = plain(given)
    except ValueError:
        raise ValueError(
            f"must be a number, a choice, or a value and a width, not a {type(given).__name__}"
        ) from None
    if axis.choices:
        chosen = [each for each in axis.choices if are_same(each, given) or shown(each) == shown(given)]
        if not chosen:
            listed = [*map(shown, axis.choices)]
            raise ValueError(
                f"must be one of {', '.join(listed)}.{nearest(shown(given), listed)}".rstrip(".")
            )
        gap = 1 / max(1, len(axis.choices) - 1)
        return Belief(axis, axis.coordinate(chosen[0]), max(SPREAD, gap / 2))
    value, width = _parts(given)
    if not axis.range.low <= value <= axis.range.high:
        raise ValueError(f"must be {axis.range}; the nearest is {in_full(axis.range.nearest(value))}")
    center, spread = axis.coordinate(value), SPREAD
    if width is not None and axis.range.is_log:
        if width <= 1:
            raise ValueError("the width of a log scale is a factor above 1, such as 2")
        spread = float(axis.range.share(axis.range.low * width))
    elif width is not None:
        if width <= 0:
            raise ValueError("the width is a distance above 0")
        spread = width / ((axis.range.high - axis.range.low) or 1)
    return Belief(axis, center, spread)


def _parts(given: Any) -> tuple[float, float | None]:
    """A value and its width; None where it has none."""
    words = given if isinstance(given, list) else given.split(":") if isinstance(given, str) else [given]
    numbers = [hyperparameter(each) if isinstance(each, str) else each for each in words]
    if not are_numbers(numbers) or len(numbers) not in (1, 2):
        raise ValueError("must be a number, or VALUE:WIDTH, such as 1e-3:2")
    value, *width = map(float, numbers)
    return value, width[0] if width else None
