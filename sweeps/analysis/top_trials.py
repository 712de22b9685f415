"""The trials of a record, the best first.

Scores of different epochs are never ranked against each other: trials are compared at one epoch, the last
one that enough of them have reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.distributions import BaseDistribution

from sweeps.record.record import Record
from sweeps.record.trials import BAD, TrialRow
from sweeps.space.numeric_range import Side

LEAST_BEST = 3
"""Trials that count as the best ones, at least."""
FEW = 8
"""Trials below which no range is judged."""
SIDES: tuple[Side, ...] = ("high", "low")
BY_CHANCE = 0.05
"""Significance level: a pattern that chance makes more often than this is none."""


@dataclass(frozen=True)
class Ranked:
    """Trials of one trainable of one sweep, ranked at one epoch."""

    trials: tuple[TrialRow, ...]
    """All but reruns."""
    epoch: int
    """At which they are ranked; 0 where none has a score."""
    order: tuple[TrialRow, ...]
    """Those that reached it with a finite score and did not fail or diverge later, the best first."""
    values: tuple[float, ...]
    """Their scores; larger is better."""
    best: tuple[TrialRow, ...]
    """The share of the best that was asked for."""

    @property
    def good(self) -> tuple[TrialRow, ...]:
        """As many of the ranked ones as half of all; trials that were pruned before are not among them."""
        return self.order[: max(len(self.best), math.ceil(len(self.trials) / 2))]

    @property
    def bad(self) -> list[TrialRow]:
        """Those that failed, diverged or are infeasible."""
        return [trial for trial in self.trials if is_bad(trial)]

    @property
    def is_constant(self) -> bool:
        """Whether no score differs from another."""
        return len(set(self.values)) < 2

    @property
    def can_judge_ranges(self) -> bool:
        """Whether there are enough scores, and different ones."""
        return len(self.order) >= FEW and not self.is_constant


def ranked(record: Record, trainable: str | None = None, keep: float = 0.2) -> Ranked:
    """The trials at the epoch at which they are compared.

    Args:
        record: what was tried.
        trainable: as it was named to the sweep; None for all.
        keep: share of the trials that count as the best.
    """
    trials, epoch = trials_of(record, trainable), record.compared_at(trainable)
    ended = sum(trial.status != "unfinished" or bool(trial.epochs) for trial in trials)
    wanted = max(LEAST_BEST, math.ceil(keep * ended))
    numbers = {trial.number for trial in trials if not is_bad(trial)}
    sign = record.objective.sign
    scores = {n: sign * score for n, score in record.scores_at(epoch).items() if n in numbers}
    order = sorted(scores, key=lambda number: (-scores[number], number))
    rows = tuple(record.trials[number] for number in order)
    return Ranked(trials, epoch, rows, tuple(scores[number] for number in order), rows[:wanted])


def trials_of(record: Record, trainable: str | None) -> tuple[TrialRow, ...]:
    """Trials of the search: of a trainable, as it was named to the sweep, or (None) of all."""
    return tuple(trial for trial in record.searched if trainable in (None, trial.trainable))


def trainables(record: Record) -> list[str]:
    """What the trials trained, as it was named to the sweep."""
    return list(dict.fromkeys(trial.trainable for trial in record.searched))


def distributions_of(
    trials: Sequence[TrialRow], with_trainable: bool = False
) -> dict[str, list[BaseDistribution]]:
    """Hyperparameter, by Optuna's name, to the distributions that it was drawn from.

    Args:
        trials: all that are meant.
        with_trainable: whether the choice of one of several trainables counts as one.
    """
    found: dict[str, dict[BaseDistribution, None]] = {}
    for trial in trials:
        for name, distribution in trial.optuna.distributions.items():
            if with_trainable or name != "trainable":
                found.setdefault(name, {})[distribution] = None
    return {name: list(distributions) for name, distributions in found.items()}


def is_bad(trial: TrialRow) -> bool:
    """Whether it failed, diverged or is infeasible."""
    return trial.status in BAD
