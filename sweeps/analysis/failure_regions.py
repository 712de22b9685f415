"""Why trials fail or diverge, and where in the space: ends of ranges, and choices, to be excluded."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from optuna.distributions import BaseDistribution

from sweeps.analysis.compared_trials import (
    BY_CHANCE,
    LEAST_BEST,
    SIDES,
    compared_trials,
    is_bad,
    trainables,
)
from sweeps.analysis.tried_values import distributions_of
from sweeps.common.errors import without_worker
from sweeps.common.formatting import count
from sweeps.common.param_types import shown
from sweeps.record.record import Record
from sweeps.record.trials import ENDED_WELL, Status, TrialRow
from sweeps.space.numeric_range import Range, Side
from sweeps.space.optuna_space import choices_of, range_of


@dataclass(frozen=True)
class Cause:
    """Trials that failed, diverged or are infeasible alike."""

    status: Status
    reason: str
    """What is the same in all of them; numbers that differ are N."""
    trials: tuple[TrialRow, ...]
    region: DeadRegion | None = None
    """Where half of them or more lie; None where there is no such region."""
    where: str = ""
    """`9 of 11 have lr > 0.12 (and 2 of the 29 that ended well)`, or that they are too few to tell; ""
    without a region."""

    def __str__(self) -> str:
        """`failed (MemoryError: no room for N units)`, to follow "trials that"."""
        status = "are infeasible" if self.status == "infeasible" else self.status
        reason = textwrap.shorten(self.reason, 80, placeholder=" ...")
        return f"{status} ({reason})" if reason else status


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
    """So many of all that failed for this cause lie in it."""
    cause: Cause

    def __str__(self) -> str:
        sign = {"high": ">", "low": "<", None: "="}[self.side]
        value = f"{self.limit:g}" if isinstance(self.limit, float) else shown(self.limit)
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
    parts = [compared_trials(record, name) for name in trainables(record)]
    return [
        region
        for part in parts
        for region in dead_regions(part.trials, part.good, distributions_of(part.trials))
    ]


def dead_regions(
    trials: Sequence[TrialRow],
    good: Collection[TrialRow],
    distributions: Mapping[str, Sequence[BaseDistribution]],
) -> list[DeadRegion]:
    """Ends of ranges, and choices, where most trials failed for one cause, more than chance would put there,
    and none is good. Those that hold the most bad trials come first.

    Each cause is tested without the trials that failed for another one: one that is common everywhere would
    hide where a rarer one begins.
    """
    common = [cause for cause in causes_of(trials) if len(cause.trials) >= LEAST_BEST]
    sound, good_ids = [trial for trial in trials if not is_bad(trial)], {id(trial) for trial in good}
    regions = sum(len(choices_of(drawn_from)) or len(SIDES) for drawn_from in distributions.values())
    level = BY_CHANCE / max(1, regions * len(common))  # Bonferroni: so many are tested
    found: dict[tuple[str, Any], DeadRegion] = {}
    for cause in common:
        for region in _dead_among([*sound, *cause.trials], cause, good_ids, distributions, level):
            known = found.setdefault((region.hyperparameter, region.side or region.limit), region)
            if known.bad < region.bad:
                found[region.hyperparameter, region.side or region.limit] = region
    return sorted(found.values(), key=lambda region: -region.bad)


def causes(record: Record) -> list[Cause]:
    """Why trials failed or diverged, and where, the most common cause first."""
    regions = dead_regions_of(record)
    well = [trial for trial in record.trials if trial.status in ENDED_WELL]
    found = [_placed(cause, regions, well) for cause in causes_of(record.trials)]
    return sorted(found, key=lambda cause: -len(cause.trials))


def causes_of(trials: Iterable[TrialRow]) -> list[Cause]:
    """Why trials failed or diverged."""
    alike: dict[tuple[Status, str], list[TrialRow]] = defaultdict(list)
    for trial in filter(is_bad, trials):
        reason = re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", without_worker(trial.reason))
        alike[trial.status, reason].append(trial)
    return [
        Cause(status, bad[0].reason if len({trial.reason for trial in bad}) == 1 else reason, tuple(bad))
        for (status, reason), bad in alike.items()
    ]


def _placed(cause: Cause, regions: Sequence[DeadRegion], well: Sequence[TrialRow]) -> Cause:
    """With the one of the regions that the advice would exclude that holds the most of its trials."""
    bad = cause.trials
    if len(bad) < LEAST_BEST:
        few = f"{count(len(bad), 'trial')} of this kind: too few to tell where in the space they lie"
        return dataclasses.replace(cause, where=few)
    held = [(sum(map(each.holds, bad)), sum(map(each.holds, well)), each) for each in regions]
    held = [one for one in held if one[0] >= max(LEAST_BEST, len(bad) / 2)]
    if not held:
        return cause
    there, others, region = max(held, key=lambda one: (one[0], -one[1]))
    also = f"{others or 'none'} of the {len(well)} that ended well"
    where = f"{there} of {len(bad)} have {region} (and {also})"
    return dataclasses.replace(cause, region=region, where=where)


class _Row(NamedTuple):
    """A trial with a hyperparameter."""

    value: Any
    is_bad: bool
    is_good: bool


_Candidate = tuple[Side | None, Any, Sequence[_Row]]
"""Side, limit and rows of what may be a dead region."""


def _dead_among(
    trials: Sequence[TrialRow],
    cause: Cause,
    good_ids: Collection[int],
    distributions: Mapping[str, Sequence[BaseDistribution]],
    level: float,
) -> Iterator[DeadRegion]:
    from scipy.stats import hypergeom  # seconds, which the page of all sweeps does without

    for hyperparameter, drawn_from in distributions.items():
        having = [trial for trial in trials if hyperparameter in trial.optuna.params]
        rows = [
            _Row(trial.optuna.params[hyperparameter], is_bad(trial), id(trial) in good_ids)
            for trial in having
        ]
        all_bad, old = sum(row.is_bad for row in rows), range_of(drawn_from)
        for side, limit, inside in (
            _choices(choices_of(drawn_from), rows) if old is None else _ends(old, rows)
        ):
            bad = sum(row.is_bad for row in inside)
            if bad < max(LEAST_BEST, 0.6 * len(inside)):
                continue
            if hypergeom.sf(bad - 1, len(rows), all_bad, len(inside)) <= level:
                yield DeadRegion(hyperparameter, side, limit, bad, all_bad, cause)


def _ends(old: Range, rows: Sequence[_Row]) -> Iterator[_Candidate]:
    """On each side, the end up to the first good trial in which the most more trials are bad than not."""
    for side in SIDES:
        inward = sorted(rows, key=lambda row: row.value, reverse=side == "high")
        first_good = next((place for place, row in enumerate(inward) if row.is_good), len(inward))
        lead = np.cumsum([1 if row.is_bad else -1 for row in inward[:first_good]])
        for place in range(first_good):
            if place + 1 < len(inward) and inward[place + 1].value == inward[place].value:
                lead[place] = 0  # a limit lies between two values
        taken = int(lead.argmax()) + 1 if lead.max(initial=0) > 0 else 0
        if 0 < taken < len(inward):
            inside, outside = float(inward[taken - 1].value), float(inward[taken].value)
            middle = old.at((old.share(inside) + old.share(outside)) / 2)
            yield side, _between(inside, middle, outside), inward[:taken]


def _between(inside: float, middle: float, outside: float) -> float:
    """A number between two, with as few digits as possible."""
    low, high = min(inside, outside), max(inside, outside)
    few = (float(f"{middle:.{digits}g}") for digits in range(1, 18))
    return next((limit for limit in few if low < limit < high), middle)


def _choices(choices: Sequence[Any], rows: Sequence[_Row]) -> Iterator[_Candidate]:
    """Each choice that is not the only one, and with which no trial is good."""
    for choice in choices:
        inside = [row for row in rows if row.value == choice]
        if len(inside) < len(rows) and not any(row.is_good for row in inside):
            yield None, choice, inside
