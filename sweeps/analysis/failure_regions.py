"""Where in the space trials fail or diverge: ends of ranges, and choices, that are to be cut off."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from optuna.distributions import BaseDistribution

from sweeps.analysis.fidelity import trainables
from sweeps.analysis.top_trials import BY_CHANCE, LEAST_BEST, SIDES, is_bad, ranked, words_of
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.space.numeric_range import Range, Side, choices_of, range_of


class Cause(NamedTuple):
    """Why trials went wrong alike."""

    status: str
    """failed or diverged."""
    reason: str
    """Its numbers are N: they differ from trial to trial."""

    def __str__(self) -> str:
        """`failed (MemoryError: no room for N units)`."""
        reason = textwrap.shorten(self.reason, 80, placeholder=" ...")
        return f"{self.status} ({reason})" if reason else self.status


@dataclass(frozen=True)
class DeadRegion:
    """Where trials fail or diverge, and no good one lies."""

    hyperparameter: str
    side: Side | None
    """Behind `limit`, on this side; None where it is one choice."""
    limit: Any
    """First value that is left out on the low or high side, or the choice."""
    bad: int
    all_bad: int
    """So many of all that failed or diverged, by its cause where it has one, lie in it."""
    trials: int
    """In it, bad ones and others."""
    cause: Cause | None = None
    """Why the trials went wrong that made it; None where all that did are looked at together."""

    def __str__(self) -> str:
        sign = {"high": ">", "low": "<", None: "="}[self.side]
        value = f"{self.limit:g}" if isinstance(self.limit, float) else self.limit
        return f"{self.hyperparameter} {sign} {value}"

    def holds(self, trial: TrialRow) -> bool:
        """Whether a trial lies in it."""
        if self.hyperparameter not in trial.optuna.params:
            return False
        value: Any = trial.optuna.params[self.hyperparameter]
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
    and none is good. Those that hold the most bad trials come first.

    Where trials went wrong for several reasons, each is also looked at by itself, without those that went
    wrong for another: a reason that is common everywhere hides where a rarer one begins.
    """
    causes = by_cause(trials)
    looks: list[Cause | None] = [None, *(causes if len(causes) > 1 else ())]
    numbers = {id(trial) for trial in good}
    regions = sum(len(choices_of(of_hyperparameter)) or len(SIDES) for of_hyperparameter in words.values())
    sure = BY_CHANCE / max(1, regions * len(looks))  # Bonferroni: of many regions, one is dead by chance
    found: dict[tuple[str, Side | Any], DeadRegion] = {}
    for cause in looks:
        seen = trials if cause is None else [t for t in trials if not is_bad(t) or cause_of(t) == cause]
        for region in _dead_of(seen, numbers, words, sure):
            held = sum(map(region.holds, trials))
            whole = dataclasses.replace(region, cause=cause, trials=held)
            known = found.setdefault((region.hyperparameter, region.side or region.limit), whole)
            if known.cause is not None and known.trials < held:
                found[region.hyperparameter, region.side or region.limit] = whole
    return sorted(found.values(), key=lambda region: -region.bad)


def by_cause(trials: Iterable[TrialRow]) -> dict[Cause, list[TrialRow]]:
    """Trials that failed or diverged, those that went wrong alike together."""
    found: dict[Cause, list[TrialRow]] = defaultdict(list)
    for trial in filter(is_bad, trials):
        found[cause_of(trial)].append(trial)
    return dict(found)


def cause_of(trial: TrialRow) -> Cause:
    """Why a trial went wrong."""
    return Cause(trial.status, re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", trial.reason))


def _dead_of(
    trials: Sequence[TrialRow],
    good: Collection[int],
    words: Mapping[str, Sequence[BaseDistribution]],
    sure: float,
) -> list[DeadRegion]:
    """Of these trials; `good`: the ids of those that are."""
    found = []
    for hyperparameter, of_hyperparameter in words.items():
        having = [trial for trial in trials if hyperparameter in trial.optuna.params]
        rows = [(trial.optuna.params[hyperparameter], is_bad(trial), id(trial) in good) for trial in having]
        old = range_of(of_hyperparameter)
        if old is not None:
            found += _dead_ends(hyperparameter, old, rows, sure)
        else:
            found += _dead_choices(hyperparameter, choices_of(of_hyperparameter), rows, sure)
    return found


Row = tuple[Any, bool, bool]
"""A trial's value of a hyperparameter, whether it failed or diverged, whether it is good."""


def _dead_ends(hyperparameter: str, old: Range, rows: Sequence[Row], sure: float) -> list[DeadRegion]:
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
            found.append(DeadRegion(hyperparameter, side, limit, bad, sum(row[1] for row in rows), taken))
    return found


def _between(inside: float, middle: float, outside: float) -> float:
    """A number between two, of as few digits as tell them apart."""
    low, high = min(inside, outside), max(inside, outside)
    few = (float(f"{middle:.{digits}g}") for digits in range(1, 18))
    return next((limit for limit in few if low < limit < high), middle)


def _dead_choices(
    hyperparameter: str, choices: Sequence[Any], rows: Sequence[Row], sure: float
) -> list[DeadRegion]:
    found = []
    for choice in choices:
        there = [row for row in rows if row[0] == choice]
        bad = sum(row[1] for row in there)
        if len(there) == len(rows) or any(row[2] for row in there):
            continue
        if _is_dead(bad, len(there), rows, sure):
            found.append(
                DeadRegion(hyperparameter, None, choice, bad, sum(row[1] for row in rows), len(there))
            )
    return found


def _is_dead(bad: int, trials: int, rows: Sequence[Row], sure: float) -> bool:
    from scipy.stats import hypergeom

    if bad < LEAST_BEST or bad < 0.6 * trials:
        return False
    all_bad = sum(row[1] for row in rows)
    return bool(hypergeom.sf(bad - 1, len(rows), all_bad, trials) <= sure)
