"""Brackets of Hyperband and their halvings. Li et al., 2018, https://arxiv.org/abs/1603.06560

A band has one bracket per first rung: the widest starts at --grace-epochs, the narrowest has no rung. The
bracket of a trial follows from its number, and its decisions from the record: a rung is decided when all
trials of the bracket have reported it or ended before, and a decision never changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.best_first import BestFirst
from sweeps.record.record import Record
from sweeps.search.rungs import rungs

Decision = Literal["CONTINUE", "PAUSE", "STOP"]
"""As in `ray.tune.schedulers.TrialScheduler`."""


@dataclass(frozen=True)
class Bracket:
    """Trials that are ranked against each other."""

    first: int
    """Position of its first trial among the searched trials, from 0; the others follow it."""
    size: int
    """Trials of the bracket when all are proposed."""
    rungs: tuple[int, ...]
    """Epochs at which trials are ranked, below the end."""

    def kept(self, reduction_factor: int) -> list[int]:
        """How many trials may reach each rung and, at last, the end."""
        counts = [self.size]
        for _ in self.rungs:
            counts.append(math.ceil(counts[-1] / reduction_factor))
        return counts


def band(config: SweepConfig) -> list[tuple[int, tuple[int, ...]]]:
    """Size and rungs of each bracket of a band, the widest first.

    Sizes as in the paper and in Ray (not hpbandster: automl/HpBandSter#113): with n first rungs,
    ceil(n / (s + 1) * factor^s) for the bracket with s rungs.
    """
    judged, factor = rungs(config), config.reduction_factor
    most = len(judged)
    return [
        (-(-(most + 1) * factor**times // (times + 1)), tuple(judged[most - times :]))
        for times in range(most, -1, -1)
    ]


def bracket_of(config: SweepConfig, planned_trials: Sequence[int], nth: int) -> Bracket:
    """The bracket of a trial.

    Args:
        config: max_epochs, grace_epochs and reduction_factor.
        planned_trials: number of trials, each time that it was raised. A larger number begins a new band, so
            that no decided bracket gets more trials.
        nth: position of the trial among the searched ones, from 0.
    """
    first, last = 0, nth + 1
    for last in planned_trials:
        if nth < last:
            break
        first = last
    whole = band(config)
    width = sum(size for size, _ in whole)
    first += (nth - first) // width * width
    for size, judged in whole:
        if nth < first + size:
            return Bracket(first, min(size, max(last, nth + 1) - first), judged)
        first += size
    raise AssertionError(f"trial {nth} is in no bracket of {whole}")


def decision(
    config: SweepConfig, record: Record, number: int, epoch: int, losses: Losses | None = None
) -> Decision:
    """Whether a trial continues, pauses or stops after an epoch.

    Args:
        config: max_epochs, grace_epochs and reduction_factor.
        record: what all trials have reported.
        number: of the trial.
        epoch: its last one.
        losses: of this epoch, when the record does not have it yet.
    """
    bracket = bracket_of(config, record.planned_trials, record.nth(number))
    if epoch not in bracket.rungs:
        return "CONTINUE"

    def losses_at(other: int, rung: int) -> Losses | None:
        at_rung = losses if (other, rung) == (number, epoch) else None
        return record.losses_at(rung).get(other, at_rung)

    promoted = _promoted(bracket, config, record, epoch, losses_at)
    if promoted is None:
        return "PAUSE"
    return "CONTINUE" if number in promoted else "STOP"


def _promoted(
    bracket: Bracket,
    config: SweepConfig,
    record: Record,
    epoch: int,
    losses_at: Callable[[int, int], Losses | None],
) -> list[int] | None:
    """The trials that continue after a rung; None while some have not reached it."""
    if bracket.first + bracket.size > len(record.searched):
        return None
    entrants = [t.number for t in record.searched[bracket.first : bracket.first + bracket.size]]
    for rung, kept in zip(bracket.rungs, bracket.kept(config.reduction_factor)[1:], strict=True):
        decided = record.halvings.get((bracket.first, rung))
        if decided is None:
            order = BestFirst()
            for number in reversed(entrants):  # the last ones proposed are mostly the missing ones
                if (losses := losses_at(number, rung)) is not None:
                    order.add(number, losses)
                elif record.trials[number].status == "unfinished":
                    return None
            decided = record.halvings[bracket.first, rung] = order.first(kept)
        entrants = decided
        if rung == epoch:
            return entrants
    raise AssertionError(f"{epoch} is no rung of {bracket}")


def most_waiting(config: SweepConfig, running: int) -> int:
    """Trials that are paused at a time, at most, with so many that train at a time.

    New trials come first, so of each bracket those that its first rung promotes may wait; and all of one that
    is not decided there: it is filled now, or waits for a trial that trains.
    """
    of_sweep = all_brackets(config, [config.num_trials or 0])
    waiting = [bracket.kept(config.reduction_factor)[:2] for bracket in of_sweep if bracket.rungs]
    undecided = sorted((whole - promoted for whole, promoted in waiting), reverse=True)[: running + 1]
    return sum(promoted for _, promoted in waiting) + sum(undecided)


def all_brackets(config: SweepConfig, planned_trials: Sequence[int]) -> Iterator[Bracket]:
    """The brackets of all planned trials, in order; `planned_trials` as in `bracket_of`."""
    nth = 0
    while nth < planned_trials[-1]:
        bracket = bracket_of(config, planned_trials, nth)
        yield bracket
        nth = bracket.first + bracket.size
