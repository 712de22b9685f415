"""What the trials of a record show, as numbers: `advice.py` makes sentences of it, `refine.py` a space.

Scores of different epochs are never ranked against each other: trials are compared at one epoch, the last
one that enough of them have reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution

from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.space.numeric_range import Range, Side, are_ordered, choices_of, range_of

LEAST_BEST = 3
"""Trials that count as the best ones, at least."""
FEW = 8
"""Trials below which no range is judged."""
SIDES: tuple[Side, ...] = ("high", "low")
EDGE = 0.1
"""Of a range, on its scale: what counts as its edge."""
BY_CHANCE = 0.05
"""A pattern that chance makes more often than this is none."""


@dataclass(frozen=True)
class Ranked:
    """Trials of one trainable of one sweep, those that are ranked best first."""

    trials: tuple[TrialRow, ...]
    """All, but for reruns of others."""
    epoch: int
    """At which they are ranked; 0 where none has a score."""
    order: tuple[TrialRow, ...]
    """Those that reached it with a finite score, but for those that failed or diverged later."""
    values: tuple[float, ...]
    """Their scores; larger is better."""
    best: tuple[TrialRow, ...]
    """The share of the best that was asked for."""

    @property
    def good(self) -> tuple[TrialRow, ...]:
        """As many of the ranked ones as half of all; those pruned before are none of them."""
        return self.order[: max(len(self.best), math.ceil(len(self.trials) / 2))]

    @property
    def bad(self) -> list[TrialRow]:
        """Those that failed or diverged."""
        return [trial for trial in self.trials if is_bad(trial)]


def ranked(record: Record, trainable: str | None = None, keep: float = 0.2) -> Ranked:
    """The trials (of a trainable) at the last epoch that as many have reached as are to be kept, and as a
    judgement takes.

    Args:
        record: what was tried.
        trainable: as it was named to the sweep; None for all.
        keep: share of the trials that count as the best.
    """
    trials = tuple(trial for trial in record.searched if trainable in (None, trial.trainable))
    ended = sum(trial.status != "unfinished" or bool(trial.epochs) for trial in trials)
    wanted = max(LEAST_BEST, math.ceil(keep * ended))
    epochs = sorted({epoch for trial in trials for epoch in trial.epochs}, reverse=True)
    numbers = {trial.number for trial in trials if not is_bad(trial)}
    reached = {epoch: len(numbers & record.scores_at(epoch).keys()) for epoch in epochs}
    enough = min(max(wanted, FEW), max(reached.values(), default=0))
    epoch = next((epoch for epoch in epochs if reached[epoch] >= enough > 0), 0)
    sign = record.objective.sign
    scores = {n: sign * score for n, score in record.scores_at(epoch).items() if n in numbers}
    order = sorted(scores, key=lambda number: (-scores[number], number))
    rows = tuple(record.trials[number] for number in order)
    return Ranked(trials, epoch, rows, tuple(scores[number] for number in order), rows[:wanted])


def words_of(trials: Sequence[TrialRow]) -> dict[str, list[BaseDistribution]]:
    """Hyperparameter, as Optuna has it, to the distributions that it was drawn from."""
    found: dict[str, dict[BaseDistribution, None]] = {}
    for trial in trials:
        for name, word in trial.optuna.distributions.items():
            if name != "trainable":  # which of several: no hyperparameter
                found.setdefault(name, {})[word] = None
    return {name: list(words) for name, words in found.items()}


@dataclass(frozen=True)
class Edge:
    """The best values of a hyperparameter sit at an end of its range."""

    hyperparameter: str
    side: Side
    at: int
    of: int
    """Of so many best trials, so many are there."""
    old: Range | None
    """None of choices, which only the user can add to."""
    new: Range | None
    values: tuple[Any, ...] = ()
    """The choices, in their order."""


def edges(
    best: Sequence[TrialRow], trials: Sequence[TrialRow], words: Mapping[str, Sequence[BaseDistribution]]
) -> list[Edge]:
    """Hyperparameters of which the best trial, and more of the best ones than chance would put there, lie at
    an end of the range: in its outer tenth, have the last of its values, or are those nearest to it of all
    trials."""
    found = []
    sure = BY_CHANCE / max(1, len(SIDES) * len(words))  # Bonferroni: of many ends, one has them by chance
    for hyperparameter, of_hyperparameter in words.items():
        if len(best) < LEAST_BEST or any(hyperparameter not in trial.optuna.params for trial in best):
            continue
        values = [trial.optuna.params[hyperparameter] for trial in best]
        old, choices = range_of(of_hyperparameter), choices_of(of_hyperparameter)
        all_values = [
            trial.optuna.params[hyperparameter] for trial in trials if hyperparameter in trial.optuna.params
        ]
        if old is not None and old.high > old.low:
            shares, all_shares = ([old.share(float(v)) for v in each] for each in (values, all_values))
            count = old.count
        elif are_ordered(choices):
            last = len(choices) - 1
            shares, all_shares = ([choices.index(v) / last for v in each] for each in (values, all_values))
            count = last + 1
        else:
            continue
        for side in SIDES:
            if (at := _at_end(side, shares, all_shares, count, sure)) is not None:
                new = None if old is None else old.wider(side)
                found.append(Edge(hyperparameter, side, at, len(values), old, new, tuple(choices)))
    return found


def _at_end(
    side: Side, best: Sequence[float], trials: Sequence[float], count: int | None, sure: float
) -> int | None:
    """How many of the best lie at an end; None where that is no pattern.

    Args:
        side: which end.
        best: where the best lie, the best one first: 0 is the low end, 1 the high end.
        trials: where all lie.
        count: of values that the range has; None where it is continuous.
        sure: what chance makes more often than this is no pattern.
    """
    from scipy.stats import binom, hypergeom

    if side == "low":
        best, trials = [1 - share for share in best], [1 - share for share in trials]
    at, chance = sum(share >= 1 - EDGE for share in best), max(EDGE, 1 / count) if count else EDGE
    if best[0] >= 1 - EDGE and 2 * at >= len(best) and binom.sf(at - 1, len(best), chance) <= sure:
        return at
    if count is not None:
        return None
    outermost = sorted(trials)[-len(best) :]
    at = sum(share >= outermost[0] for share in best)
    ends = outermost[len(outermost) // 2 :]  # where the best is inside, those at the very end are not good
    if 2 * sum(share >= ends[0] for share in best) < len(ends):
        return None
    is_pattern = hypergeom.sf(at - 1, len(trials), len(best), len(best)) <= sure
    return at if best[0] >= outermost[0] >= 1 - 3 * EDGE and 2 * at >= len(best) and is_pattern else None


def is_bad(trial: TrialRow) -> bool:
    """Whether it failed or diverged."""
    return trial.status in ("failed", "diverged")
