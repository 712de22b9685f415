"""The trials of a sweep in memory, and their ranking; searchers, schedulers and tables read it."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from sweeps.common.objective import Losses, Objective, Objectives
from sweeps.record.pareto import BestFirst
from sweeps.record.reruns import Confirmed, Reruns, seeds
from sweeps.record.sweep_info import SweepInfo
from sweeps.record.trials import BAD, ENDED_WELL, TrialRow
from sweeps.space.point import Point

Kept = TypeVar("Kept")
LEAST_COMPARED = 20
"""Trials that are compared at an epoch. Of fewer, the best quarter has fewer than 5, which is the least that
Optuna's PED-ANOVA is said to need above its quantile."""
COMPARED_SHARE = 0.2
"""Of all trials, likewise: as many as count as the best ones."""
SMALL_SHARE = 2 / 3
"""Where fewer have a score: of those that reached the first epoch, say."""


class RankedTrials:
    """Trials and their ranking."""

    def __init__(self, info: SweepInfo) -> None:
        self.info = info
        self.trials: list[TrialRow] = []
        self.searched: list[TrialRow] = []
        """The trials that the search has proposed: all but reruns."""
        self.pruning: dict[Any, Any] = {}
        """What a scheduler keeps of its decisions, which follow from these trials."""
        self.reruns = Reruns(self.objectives)
        self._order = BestFirst()
        """Of trials that ended well, with a finite score."""
        self._scores: dict[int, dict[int, float]] = {}
        self._losses: dict[int, dict[int, Losses]] = {}
        """Of the epochs that were asked for."""
        self._live: dict[int, TrialRow] = {}

    @property
    def objective(self) -> Objective:
        """The metric that trials are judged by; of several the first one."""
        return self.info.objective

    @property
    def objectives(self) -> Objectives:
        """All metrics that trials are judged by."""
        return self.info.objectives

    @property
    def live(self) -> list[TrialRow]:
        """Trials that have not ended."""
        return list(self._live.values())

    @property
    def planned_trials(self) -> list[int]:
        """The number of trials asked for in all, each time that it was raised."""
        return list(self.info.planned)

    @property
    def most_trials(self) -> int:
        """The number of trials asked for in all, as of now; 0 before it is written."""
        return next(reversed(self.info.planned), 0)

    @property
    def checkpoint_bytes(self) -> int:
        """Size of the largest checkpoint; 0 where none was written."""
        return max((trial.checkpoint_bytes for trial in self.trials), default=0)

    @property
    def has_epochs(self) -> bool:
        """Whether any trial has trained an epoch."""
        return any(trial.epochs for trial in self.trials)

    @property
    def failed_untrained(self) -> int:
        """Trials that have failed in a sweep that has trained no epoch: the sweep or its data is at fault."""
        return 0 if self.has_epochs else sum(trial.status == "failed" for trial in self.trials)

    def is_to_stop(self, number: int) -> bool:
        """Whether the user has stopped a trial that has not ended yet."""
        return number in self.info.stopped and number in self._live

    def points_to_try(self) -> list[Point]:
        """The points that the user has chosen, and that have not begun."""
        if not self.info.tried:
            return []
        begun = {trial.point.key for trial in self.searched}
        return [point for point in self.info.tried if point.key not in begun]

    def scores_at(self, epoch: int) -> Mapping[int, float]:
        """Number to finite score of each searched trial that reported this epoch, in the order of reports."""
        return self._scores.get(epoch, {})

    def compared_at(self, trainable: str | None = None) -> int:
        """The epoch at which trials are compared, in the report, its figures and its advice, and by a sweep
        that refines this one: the last one that enough of them have reached; 0 while none has a score that
        counts.

        With pruning few trials reach the last epoch, and these are alike. In a small sweep two thirds are
        enough: one trial that ended early must not decide for all.

        Args:
            trainable: of several, the one whose trials are meant; None for all.
        """
        trials = [trial for trial in self.searched if trainable in (None, trial.trainable)]
        numbers = {trial.number for trial in trials if trial.status not in BAD}
        reached = {epoch: len(numbers & scores.keys()) for epoch, scores in self._scores.items()}
        most = max(reached.values(), default=0)
        enough = max(LEAST_COMPARED, COMPARED_SHARE * len(trials))
        enough = max(1, enough if most >= enough else SMALL_SHARE * most)
        return max((epoch for epoch, trials_there in reached.items() if trials_there >= enough), default=0)

    def losses_at(self, epoch: int) -> dict[int, Losses]:
        """The same with all objectives, by which schedulers and searchers order trials."""
        known = self._losses.setdefault(epoch, {})
        for number, _ in _after(self._scores.get(epoch, {}), len(known)):
            row = self.trials[number].epochs[epoch]
            known[number] = self.objectives.losses(row.score, row.metrics)
        return known

    def losses_since(self, epoch: int, count: int) -> list[tuple[int, Losses]]:
        """Number and losses of those that came after the first `count`, in the order of reports. However many
        came before, this takes no longer: it is asked for after each report."""
        return _after(self.losses_at(epoch), count)

    def front(self) -> list[int]:
        """Numbers of the best trials, whether they have ended or not: those that no other one dominates, the
        knee first; with one objective the best trial alone. Where the top is confirmed, by the means of the
        reruns."""
        confirmed = self.confirmed()
        if confirmed and confirmed[0].scores:
            return self.reruns.front(confirmed)
        return self._with_live(1).front()

    def front_values(self) -> dict[int, tuple[float, ...]]:
        """Of each trial of the front the value of each objective, the means of its reruns where it is
        confirmed."""
        means = {trial.number: trial.means for trial in self.confirmed() if trial.scores}
        values = {number: self.trials[number].values(self.objectives) for number in self.front()}
        return {number: means.get(number, found or ()) for number, found in values.items()}

    def best(self) -> TrialRow | None:
        """The first of the front: with one objective the best trial, else the knee. Every page and message
        names this one; where it has not ended, it may still fail."""
        front = self.front()
        return self.trials[front[0]] if front else None

    def confirmed(self) -> list[Confirmed]:
        """Trials rerun with new seeds, the best one first; [] while reruns of the top are to come."""
        asked = self.info.confirm
        return self.reruns.confirmed(asked.seeds, self._to_confirm(asked.top)) if asked else []

    def wanted_reruns(self) -> tuple[list[int], list[int]]:
        """The trials to be confirmed as of now, and the seeds of their reruns."""
        asked = self.info.confirm
        return (self._to_confirm(asked.top), seeds(self.info.seed, asked.seeds)) if asked else ([], [])

    def reruns_to_come(self) -> list[tuple[int, int]]:
        """Trial and seed of each rerun that has not begun, seed by seed: a confirmation that is cut short has
        rerun all of the top about equally often."""
        top, each = self.wanted_reruns()
        begun = {
            (number, rerun.seed) for number in self.reruns.numbers for rerun in self.reruns.confirming(number)
        }
        return [(number, seed) for seed in each for number in top if (number, seed) not in begun]

    @property
    def unfinished_reruns(self) -> list[TrialRow]:
        """Reruns that have not ended."""
        return [trial for trial in self.live if trial.confirms is not None]

    @property
    def is_to_be_confirmed(self) -> bool:
        """Whether reruns are to come or unfinished."""
        return bool(self.reruns_to_come() or self.unfinished_reruns)

    def nth(self, number: int) -> int:
        """Which of the searched trials one is, from 0; its number, where nothing was rerun before it."""
        return bisect.bisect_left(self.searched, number, key=lambda trial: trial.number)

    def leaders(self, count: int) -> list[int]:
        """Numbers of the best searched trials, whether they have ended or not, the best one first; the
        earlier wins a tie. Of several objectives the whole front is among them."""
        order = self._with_live(count)
        return order.first(max(count, len(order.front())))

    def ended_leaders(self, count: int) -> list[int]:
        """The same of those that ended well: a trial that leads and has not ended may still fail."""
        return self._order.first(max(count, len(self._order.front())))

    def would_lead(self, number: int, count: int = 1) -> bool:
        """Whether a trial, if it ended well now, would be among the `count` best, or on the front."""
        losses = self._losses_of(self.trials[number])
        if losses is None:
            return False
        if self._order.is_of_front(number, losses):
            return True
        return count > len(self._order.front()) and self._order.place(number, losses) < count

    def leaders_within(self, most_bytes: float) -> list[int]:
        """The ended leaders whose checkpoints fit together in so many bytes, the front always. The first that
        does not fit ends them: so, with one objective, a trial that does not belong to them never will."""
        found: list[int] = []
        of_front = len(self._order.front())
        for number in self._order:
            most_bytes -= self.trials[number].checkpoint_bytes
            if len(found) >= of_front and most_bytes < 0:
                break
            found.append(number)
        return found

    def would_lead_within(self, number: int, most_bytes: float) -> bool:
        """Whether a trial, if it ended well now, would be one of `leaders_within`. One without a checkpoint
        would, wherever those before it fit: its size is known when it has one."""
        if (losses := self._losses_of(self.trials[number])) is None:
            return False
        if self._order.is_of_front(number, losses):
            return True
        better = self._order.first(self._order.place(number, losses))
        return sum(self.trials[n].checkpoint_bytes for n in (number, *better)) <= most_bytes

    def _to_confirm(self, top: int) -> list[int]:
        """The trials that reruns confirm: so many of the best, or the front of several objectives."""
        return self._with_live(1).front() if self.objectives.are_several else self.leaders(top)

    def _with_live(self, count: int) -> BestFirst:
        """So many of the best trials that ended well, the whole front at least, and all that train."""
        order = BestFirst()
        for trial in (*(self.trials[number] for number in self.ended_leaders(count)), *self.live):
            if trial.confirms is None and (losses := self._losses_of(trial)) is not None:
                order.add(trial.number, losses)
        return order

    def _rank_epoch(self, trial: TrialRow, epoch: int) -> None:
        row = trial.epochs[epoch]
        values = self.objectives.values(row.score, row.metrics)
        if trial.confirms is None and all(map(math.isfinite, values)):
            self._scores.setdefault(epoch, {})[trial.number] = row.score

    def _list(self, trial: TrialRow) -> None:
        self.trials.append(trial)
        self._live[trial.number] = trial
        if trial.confirms is None:
            self.searched.append(trial)
        else:
            self.reruns.add(trial)

    def _settle(self, trial: TrialRow) -> None:
        self._live.pop(trial.number, None)
        if trial.status not in ENDED_WELL or trial.confirms is not None:
            return
        if (losses := self._losses_of(trial)) is not None:
            self._order.add(trial.number, losses)

    def _losses_of(self, trial: TrialRow) -> Losses | None:
        """Of its best epoch; None where no epoch has a finite score, or that one misses a constraint."""
        losses = trial.losses(self.objectives)
        return None if losses is None or losses[0] else losses


def _after(known: dict[int, Kept], count: int) -> list[tuple[int, Kept]]:
    """The items after the first `count`, in their order, found from the end."""
    return list(itertools.islice(reversed(known.items()), len(known) - count))[::-1]
