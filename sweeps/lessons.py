"""What the trials of a record show, as numbers: `advice.py` makes sentences of it, `refine.py` a space.

Scores of different epochs are never ranked against each other: trials are compared at one epoch, the last
one that enough of them have reached.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution

from sweeps.fidelity import trainables
from sweeps.record import Record
from sweeps.rows import TrialRow
from sweeps.scales import Range, Side, are_ordered, choices_of, range_of

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
        return [trial for trial in self.trials if _is_bad(trial)]


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
    numbers = {trial.number for trial in trials if not _is_bad(trial)}
    reached = {epoch: len(numbers & record.scores_at(epoch).keys()) for epoch in epochs}
    enough = min(max(wanted, FEW), max(reached.values(), default=0))
    epoch = next((epoch for epoch in epochs if reached[epoch] >= enough > 0), 0)
    sign = 1.0 if record.mode == "max" else -1.0
    scores = {n: sign * score for n, score in record.scores_at(epoch).items() if n in numbers}
    order = sorted(scores, key=lambda number: (-scores[number], number))
    rows = tuple(record.trials[number] for number in order)
    return Ranked(trials, epoch, rows, tuple(scores[number] for number in order), rows[:wanted])


def words_of(trials: Sequence[TrialRow]) -> dict[str, list[BaseDistribution]]:
    """Knob, as Optuna has it, to the distributions that it was drawn from."""
    found: dict[str, dict[BaseDistribution, None]] = {}
    for trial in trials:
        for name, word in trial.told.distributions.items():
            if name != "trainable":  # which of several: no knob
                found.setdefault(name, {})[word] = None
    return {name: list(words) for name, words in found.items()}


@dataclass(frozen=True)
class Edge:
    """The best values of a knob sit at an end of its range."""

    knob: str
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
    """Knobs of which the best trial, and more of the best ones than chance would put there, lie at an end of
    the range: in its outer tenth, have the last of its values, or are those nearest to it of all trials."""
    found = []
    sure = BY_CHANCE / max(1, len(SIDES) * len(words))  # Bonferroni: of many ends, one has them by chance
    for knob, of_knob in words.items():
        if len(best) < LEAST_BEST or any(knob not in trial.told.params for trial in best):
            continue
        values = [trial.told.params[knob] for trial in best]
        old, choices = range_of(of_knob), choices_of(of_knob)
        all_values = [trial.told.params[knob] for trial in trials if knob in trial.told.params]
        if old is not None and old.high > old.low:
            shares, all_shares = ([old.share(float(v)) for v in each] for each in (values, all_values))
            count = old.values()
        elif are_ordered(choices):
            last = len(choices) - 1
            shares, all_shares = ([choices.index(v) / last for v in each] for each in (values, all_values))
            count = last + 1
        else:
            continue
        for side in SIDES:
            if (at := _at_end(side, shares, all_shares, count, sure)) is not None:
                new = None if old is None else old.wider(side)
                found.append(Edge(knob, side, at, len(values), old, new, tuple(choices)))
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


@dataclass(frozen=True)
class DeadRegion:
    """Where trials fail or diverge, and no good one lies."""

    knob: str
    side: Side | None
    """Behind `limit`, on this side; None where it is one choice."""
    limit: Any
    """First value that is left out on the low or high side, or the choice."""
    bad: int
    all_bad: int
    trials: int
    """In it, bad ones and others."""

    def __str__(self) -> str:
        sign = {"high": ">", "low": "<", None: "="}[self.side]
        value = f"{self.limit:g}" if isinstance(self.limit, float) else self.limit
        return f"{self.knob} {sign} {value}"

    def holds(self, trial: TrialRow) -> bool:
        """Whether a trial lies in it."""
        if self.knob not in trial.told.params:
            return False
        value: Any = trial.told.params[self.knob]
        if self.side is None:
            return bool(value == self.limit)
        return bool(value > self.limit if self.side == "high" else value < self.limit)


def dead_regions_of(record: Record) -> list[DeadRegion]:
    """Those of each trainable of a record."""
    parts = [ranked(record, name) for name in trainables(record)]
    return [
        region for part in parts for region in dead_regions(part.trials, part.good, words_of(part.trials))
    ]


def dead_regions(
    trials: Sequence[TrialRow],
    good: Collection[TrialRow],
    words: Mapping[str, Sequence[BaseDistribution]],
) -> list[DeadRegion]:
    """Ends of ranges, and choices, where most trials failed or diverged, more than chance would put there,
    and none is good. Those that hold the most bad trials come first."""
    numbers = {(id(trial)) for trial in good}
    regions = sum(len(choices_of(of_knob)) or len(SIDES) for of_knob in words.values())
    sure = BY_CHANCE / max(1, regions)  # Bonferroni: of many regions, one is dead by chance
    found = []
    for knob, of_knob in words.items():
        having = [trial for trial in trials if knob in trial.told.params]
        rows = [(trial.told.params[knob], _is_bad(trial), id(trial) in numbers) for trial in having]
        old = range_of(of_knob)
        if old is not None:
            found += _dead_ends(knob, old, rows, sure)
        else:
            found += _dead_choices(knob, choices_of(of_knob), rows, sure)
    return sorted(found, key=lambda region: -region.bad)


def _is_bad(trial: TrialRow) -> bool:
    return trial.status in ("failed", "diverged")


Row = tuple[Any, bool, bool]
"""A trial's value of a knob, whether it failed or diverged, whether it is good."""


def _dead_ends(knob: str, old: Range, rows: Sequence[Row], sure: float) -> list[DeadRegion]:
    found = []
    for side in SIDES:
        inward = sorted(rows, key=lambda row: row[0], reverse=side == "high")
        first_good = next((place for place, row in enumerate(inward) if row[2]), len(inward))
        lead, best_lead, taken = 0, 0, 0
        for place in range(first_good):
            lead += 1 if inward[place][1] else -1
            is_last = place + 1 == len(inward) or inward[place + 1][0] != inward[place][0]
            if lead > best_lead and is_last:
                best_lead, taken = lead, place + 1
        bad = sum(row[1] for row in inward[:taken])
        if taken < len(inward) and _is_dead(bad, taken, rows, sure):
            inside, outside = float(inward[taken - 1][0]), float(inward[taken][0])
            limit = _between(inside, old.at((old.share(inside) + old.share(outside)) / 2), outside)
            found.append(DeadRegion(knob, side, limit, bad, sum(row[1] for row in rows), taken))
    return found


def _between(inside: float, middle: float, outside: float) -> float:
    """A number between two, of as few digits as tell them apart."""
    low, high = min(inside, outside), max(inside, outside)
    few = (float(f"{middle:.{digits}g}") for digits in range(1, 18))
    return next((limit for limit in few if low < limit < high), middle)


def _dead_choices(knob: str, choices: Sequence[Any], rows: Sequence[Row], sure: float) -> list[DeadRegion]:
    found = []
    for choice in choices:
        there = [row for row in rows if row[0] == choice]
        bad = sum(row[1] for row in there)
        if len(there) == len(rows) or any(row[2] for row in there):
            continue
        if _is_dead(bad, len(there), rows, sure):
            found.append(DeadRegion(knob, None, choice, bad, sum(row[1] for row in rows), len(there)))
    return found


def _is_dead(bad: int, trials: int, rows: Sequence[Row], sure: float) -> bool:
    from scipy.stats import hypergeom

    if bad < LEAST_BEST or bad < 0.6 * trials:
        return False
    all_bad = sum(row[1] for row in rows)
    return bool(hypergeom.sf(bad - 1, len(rows), all_bad, trials) <= sure)
