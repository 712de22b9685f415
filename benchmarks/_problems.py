"""What searches are compared on: hyperparameters, the learning curve of every point, and the regret."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from benchmarks import curves, lcbench

Point = tuple[tuple[str, Any], ...]
"""Names and values of the searched hyperparameters."""


@dataclass(frozen=True)
class Curve:
    """Of one point."""

    point: Point
    scores: Sequence[float]
    """val_acc, 0 to 1, after each epoch."""
    seconds: Sequence[float]
    """How long each epoch takes."""
    others: Mapping[str, float] = field(default_factory=dict)
    """Metrics that are the same in all epochs."""


@dataclass(frozen=True)
class Epoch:
    """One epoch that a search trained."""

    trial: str
    point: Point
    epoch: int
    score: float


@dataclass(frozen=True)
class Regret:
    """Points of accuracy behind the best, when a search has spent its epochs."""

    choice: float
    """Of what its choice reaches when it is trained to the end."""
    weights: float
    """Of the weights that it hands over, as they were trained: by the best score of any epoch."""


class Problem(Protocol):
    """One search task."""

    @property
    def family(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def trainable(self) -> str:
        """Module that replays the curves, for this program."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its fixed hyperparameters."""

    @property
    def space(self) -> Mapping[str, Any]:
        """Its `ray.tune` domains."""

    @property
    def max_epochs(self) -> int: ...

    def curve(self, params: Mapping[str, Any]) -> Curve: ...

    def regret(self, found: Sequence[Epoch]) -> Regret: ...


@dataclass(frozen=True)
class FashionCnn:
    """The table of `benchmarks.curves`, measured; with the curves of one of its seeds.

    The choice is the point with the best score of any epoch. It counts by the quality of the point, the mean
    of its best epochs over both seeds: by the last epoch alone, noise decides.
    """

    seed: int
    family = "fashion_cnn"
    trainable = "benchmarks.replay"

    @property
    def name(self) -> str:
        return f"seed {self.seed}"

    @property
    def params(self) -> Mapping[str, Any]:
        return {"curves_seed": self.seed}

    @cached_property
    def space(self) -> Mapping[str, Any]:
        from benchmarks.replay_space import SPACE

        return dict(SPACE)

    @property
    def max_epochs(self) -> int:
        return curves.load().epochs

    def curve(self, params: Mapping[str, Any]) -> Curve:
        table = curves.load()
        place = table.place(params)
        point = tuple((name, params[name]) for name in table.values)
        return Curve(point, table.scores[place, self.seed], table.seconds[place, self.seed])

    def regret(self, found: Sequence[Epoch]) -> Regret:
        table = curves.load()
        chosen = max((epoch for epoch in found if math.isfinite(epoch.score)), key=lambda epoch: epoch.score)
        of_seed = (
            score for (_, seed), scores in table.scores.items() if seed == self.seed for score in scores
        )
        qualities = table.qualities
        return Regret(
            100 * (max(qualities.values()) - qualities[table.place(dict(chosen.point))]),
            100 * (max(filter(math.isfinite, of_seed)) - chosen.score),
        )


@dataclass(frozen=True)
class Lcbench:
    """The predicted curves of one task of `benchmarks.lcbench`.

    The choice is the point with the best score at the highest epoch that any trial has reached. The best of
    20,000 random points is what it is compared with: a search may be better.
    """

    task: str
    family = "lcbench"
    trainable = "benchmarks.lcbench"
    max_epochs = lcbench.EPOCHS

    @property
    def name(self) -> str:
        return f"task {self.task}"

    @property
    def params(self) -> Mapping[str, Any]:
        return {"task": self.task}

    @cached_property
    def space(self) -> Mapping[str, Any]:
        from benchmarks.lcbench_space import SPACE

        return dict(SPACE)

    def curve(self, params: Mapping[str, Any]) -> Curve:
        point = tuple((name, params[name]) for name in lcbench.NAMES)
        seconds = (lcbench.SECONDS,) * lcbench.EPOCHS
        return Curve(point, lcbench.scores(self.task, params), seconds)

    def regret(self, found: Sequence[Epoch]) -> Regret:
        furthest = max(epoch.epoch for epoch in found)
        chosen = max((each for each in found if each.epoch == furthest), key=lambda epoch: epoch.score)
        best = lcbench.tasks()["best"][self.task]
        at_the_end = lcbench.scores(self.task, dict(chosen.point))[-1]
        return Regret(100 * (best - at_the_end), 100 * (best - max(epoch.score for epoch in found)))


FAMILIES = (Lcbench.family, FashionCnn.family)


def problems(family: str, of_set: str) -> list[Problem]:
    """Those of a family; of_set is "to_fit" or "to_check", for lcbench."""
    if family == FashionCnn.family:
        return [FashionCnn(seed) for seed in curves.load().seeds]
    return [Lcbench(task) for task in lcbench.tasks()[of_set]]
