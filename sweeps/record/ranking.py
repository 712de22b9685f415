"""The trials of a sweep in memory, and their ranking; searchers, schedulers and tables read it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sweeps.common.objective import Losses, Objective, Objectives
from sweeps.common.yaml_values import ParamValue
from sweeps.record import sweep_info
from sweeps.record.pareto import BestFirst
from sweeps.record.reruns import Confirmed, confirmed_by, in_order, order_of, seeds
from sweeps.record.sweep_info import HeldOutScore, SweepInfo
from sweeps.record.trials import BAD, DEFAULTS, ENDED_WELL, EpochRow, TrialRow
from sweeps.space.point import Point

LEAST_COMPARED = 20
"""Trials that are compared at an epoch. Of fewer, the best quarter has fewer than 5, which is the least that
Optuna's PED-ANOVA is said to need above its quantile."""


class Arrival(NamedTuple):
    """A report of a searched trial with finite scores, at some epoch."""

    number: int
    """Of the trial."""
    attempt: int
    """Which of its attempts has reported it, from 0."""
    time: float
    """Of the report, seconds since 1970."""
    losses: Losses


class RankedTrials:
    """Trials and their ranking."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about = about
        """The attributes of the sweep, for loggers and notebooks; `info` is typed."""
        self._info: tuple[Mapping[str, Any], SweepInfo] | None = None
        """What was parsed last, and of which attributes."""
        self.trials: list[TrialRow] = []
        self.searched: list[TrialRow] = []
        """The trials that the search has proposed: all but reruns."""
        self.openings: list[tuple[float, int]] = []
        """When trials were opened again, and which, each time."""
        self.pruning: dict[Any, Any] = {}
        """What a scheduler keeps of its decisions, which follow from these trials."""
        self._order = BestFirst()
        """Of trials that ended well, with a finite score."""
        self._losses: dict[int, dict[int, Losses]] = {}
        """Of each epoch, by the number of the trial."""
        self._arrivals: dict[int, list[Arrival]] = {}
        self._live: dict[int, TrialRow] = {}
        self._swept: set[tuple[str, str]] = set()
        """Trainables, each with a hyperparameter that is swept in some trial."""

    @property
    def info(self) -> SweepInfo:
        """The attributes of the sweep."""
        if self._info is None or self._info[0] is not self.about:
            self._info = self.about, sweep_info.parse(self.about)
        return self._info[1]

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

    def is_to_stop(self, number: int) -> bool:
        """Whether a trial is stopped that has not ended yet."""
        return number in self._live and bool(self.why_stopped(number))

    def why_stopped(self, number: int) -> str:
        """`stopped by the user`, or by a limit of the sweep; "" of a trial that was not stopped, or opened
        again since."""
        stop, trial = self.info.stopped.get(number), self.trials[number]
        if stop is None or (trial.attempts and stop.time < trial.start):
            return ""
        return f"stopped by {stop.by or 'the user'}"

    def codes_of(self, number: int) -> list[int]:
        """Which code a trial was trained with, as `SweepInfo.code_at` counts; more than one where it went on
        after a change, none before its first epoch."""
        return sorted({self.info.code_at(row.time) for row in self.trials[number].epochs.values()})

    def codes(self) -> list[str]:
        """The same of each trial, as `1` or `1, 2`; [] where all have been trained with the same code."""
        if not any(run.changed_scores for run in self.info.runs):
            return []
        found = [self.codes_of(trial.number) for trial in self.trials]
        are_different = len({code for codes in found for code in codes}) > 1
        return [", ".join(map(str, codes)) for codes in found] if are_different else []

    def points_to_try(self) -> list[Point]:
        """The points that the user has chosen, and that have not begun."""
        if not self.info.tried:
            return []
        begun = {trial.point.whole for trial in self.searched}
        return [point for point in self.info.tried if point.whole not in begun]

    def baselines_to_try(self) -> list[Point]:
        """The defaults that have not begun."""
        begun = {trial.point.whole for trial in self.baselines}
        return [point for point in self.info.baselines if point.whole not in begun]

    @property
    def baselines(self) -> list[TrialRow]:
        """The trials of the defaults."""
        return [trial for trial in self.searched if trial.origin == DEFAULTS]

    def scores_at(self, epoch: int) -> Mapping[int, float]:
        """Number to finite score of each searched trial that reported this epoch, in the order of reports."""
        return {number: self.trials[number].epochs[epoch].score for number in self.losses_at(epoch)}

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
        reached = {epoch: len(numbers & losses.keys()) for epoch, losses in self._losses.items()}
        most = max(reached.values(), default=0)
        enough = max(LEAST_COMPARED, 0.2 * len(trials))  # as many as count as the best ones
        enough = max(1, enough if most >= enough else 2 / 3 * most)
        return max((epoch for epoch, trials_there in reached.items() if trials_there >= enough), default=0)

    def losses_at(self, epoch: int) -> Mapping[int, Losses]:
        """The same with all objectives, by which schedulers and searchers order trials."""
        return self._losses.get(epoch, {})

    def arrivals_at(self, epoch: int) -> Sequence[Arrival]:
        """Each report of this epoch, in order. A trial that was opened again may be there several times: what
        was decided by an earlier report stays."""
        return self._arrivals.get(epoch, ())

    def front(self) -> list[int]:
        """Numbers of the best trials, whether they have ended or not: those that no other one dominates, the
        knee first; with one objective the best trial alone. Where the top is confirmed, by the means of the
        reruns."""
        if means := self.confirmed_with_score():
            return order_of(means.values(), self.objectives).front()
        return self._with_live(1).front()

    def front_values(self) -> dict[int, tuple[float, ...]]:
        """Of each trial of the front the value of each objective, the means of its reruns where it is
        confirmed."""
        means = self.confirmed_with_score()
        values = {number: self.trials[number].values(self.objectives) or () for number in self.front()}
        return {n: means[n].means if n in means else found for n, found in values.items()}

    def best(self) -> TrialRow | None:
        """The first of the front: with one objective the best trial, else the knee. Every page and message
        names this one; where it has not ended, it may still fail."""
        front = self.front()
        return self.trials[front[0]] if front else None

    def test_of_best(self) -> HeldOutScore | None:
        """What the weights of the best trial, or of one of its reruns, scored on the test rows; None where
        those that were scored are of a trial that led before, or of another epoch or attempt."""
        best, test = self.best(), self.info.test
        if best is None or test is None or test.run is None:
            return None
        run = self.trials[test.run]
        is_of_best = best.number in (run.number, run.confirms)
        return test if is_of_best and test.reported in (None, run.best_reported(self.objective)) else None

    @property
    def rerun_trials(self) -> list[int]:
        """Numbers of the trials that have reruns, in the order of their first ones."""
        return list(dict.fromkeys(trial.confirms for trial in self.trials if trial.confirms is not None))

    def reruns_of(self, number: int) -> list[TrialRow]:
        """The reruns of a trial, without cancelled ones."""
        return [trial for trial in self.trials if trial.confirms == number and trial.status != "pruned"]

    def confirmed(self) -> list[Confirmed]:
        """Trials rerun with new seeds, the best one first; [] while reruns of the top are to come."""
        top, of_each = self.wanted_reruns()
        settled = [trial for trial in self._confirmed() if trial.ended >= len(of_each)] if top else []
        if not top or not set(top) <= {trial.number for trial in settled}:
            return []
        return in_order(settled, self.objectives)

    def confirmed_with_score(self) -> dict[int, Confirmed]:
        """The same by their numbers, without those of which no rerun has a score."""
        return {trial.number: trial for trial in self.confirmed() if trial.scores}

    def confirmed_so_far(self) -> list[Confirmed]:
        """Trials of which a rerun has ended, the best one first; more reruns may be to come."""
        return in_order((trial for trial in self._confirmed() if trial.ended), self.objectives)

    def _confirmed(self) -> list[Confirmed]:
        return [confirmed_by(number, self.reruns_of(number), self.objectives) for number in self.rerun_trials]

    def wanted_reruns(self) -> tuple[list[int], list[int]]:
        """The trials to be confirmed as of now, and the seeds of their reruns."""
        if (asked := self.info.confirm) is None:
            return [], []
        top = self._with_live(1).front() if self.objectives.are_several else self.leaders(asked.top)
        return top, seeds(self.info.seed, asked.seeds)

    def reruns_to_come(self) -> list[tuple[int, int]]:
        """Trial and seed of each rerun that has not begun, seed by seed: a confirmation that is cut short has
        rerun all of the top about equally often."""
        top, each = self.wanted_reruns()
        begun = {(trial.confirms, trial.seed) for trial in self.trials if trial.status != "pruned"}
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

    def ended_leaders(
        self, count: float, most_bytes: float = math.inf, if_ended: int | None = None
    ) -> list[int]:
        """The same of those that ended well (a trial that leads and has not ended may still fail), the front
        always, and of the others as many as have checkpoints that fit together in so many bytes. The first
        that does not fit ends them: so, with one objective, a trial that does not belong to them never will.

        Args:
            if_ended: a trial that is taken as if it had ended well.
        """
        order = self._order
        if if_ended is not None and (losses := self._losses_of(self.trials[if_ended])) is not None:
            order = order.with_one(if_ended, losses)
        found, of_front = list[int](), len(order.front())
        for number in order:
            most_bytes -= self.trials[number].checkpoint_bytes
            if len(found) >= of_front and (most_bytes < 0 or len(found) >= count):
                break
            found.append(number)
        return found

    def _with_live(self, count: int) -> BestFirst:
        """So many of the best trials that ended well, the whole front at least, and all that train."""
        order = BestFirst()
        for trial in (*(self.trials[number] for number in self.ended_leaders(count)), *self.live):
            if trial.confirms is None and (losses := self._losses_of(trial)) is not None:
                order.add(trial.number, losses)
        return order

    def _rank_epoch(self, trial: TrialRow, attempt: int, epoch: int, row: EpochRow) -> None:
        losses = self.objectives.losses(row.score, row.metrics)
        if trial.confirms is None and all(map(math.isfinite, losses[1:])):
            arrival = Arrival(trial.number, attempt, row.time, losses)
            self._arrivals.setdefault(epoch, []).append(arrival)
            if trial.epochs.get(epoch) is row:  # else an earlier attempt has reported it
                self._losses.setdefault(epoch, {})[trial.number] = losses

    def varied(self, trial: TrialRow) -> dict[str, ParamValue]:
        """The hyperparameters of a trial that differ between trials; some may have been fixed meanwhile."""
        fixed = {n: value for n, value in trial.fixed.items() if (trial.trainable, n) in self._swept}
        return {**fixed, **trial.params}

    def _list(self, trial: TrialRow) -> None:
        self._swept |= {(trial.trainable, name) for name in trial.params}
        self.trials.append(trial)
        self._live[trial.number] = trial
        if trial.confirms is None:
            self.searched.append(trial)

    def _replace(self, trial: TrialRow) -> None:
        """List a further attempt of a trial in its place."""
        before = self.trials[trial.number]
        trial.attempts, before.attempts = [*before.attempts, before], []
        trial.note, trial.tags = before.note, before.tags
        if before.status == "unfinished":  # it was cut short
            before.end = trial.start
        self.openings.append((trial.start, trial.number))
        self._order.remove(before.number)
        self.trials[trial.number] = self._live[trial.number] = trial
        if trial.confirms is None:
            self.searched[self.nth(trial.number)] = trial

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
