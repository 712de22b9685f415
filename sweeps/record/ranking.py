"""The trials of a sweep in memory: which there are, and how they stand to each other.

Searchers, schedulers, the screen and the tables read it; none keeps a truth of its own.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from typing import Any

from sweeps.common.objective import Objective
from sweeps.record import sweep_info
from sweeps.record.reruns import Confirmed, Reruns, seeds
from sweeps.record.trials import TrialRow


class RankedTrials:
    """Trials, and who leads: it follows from them alone."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about: dict[str, Any] = dict(about)
        """What the record says of the sweep as a whole, as it is in the file; `info` is the same with
        types."""
        self.info = sweep_info.parse(about)
        self.trials: list[TrialRow] = []
        self.searched: list[TrialRow] = []
        """Those of them that the search has proposed: all but reruns."""
        self.halvings: dict[tuple[int, int], list[int]] = {}
        """First trial of a bracket and rung to those that went on there: follows from the rest."""
        self.reruns = Reruns(self.objective)
        self._leaders = Leaders(self.objective)
        self._scores: dict[int, dict[int, float]] = {}
        self._live: dict[int, TrialRow] = {}

    @property
    def objective(self) -> Objective:
        """What trials are judged by."""
        return self.info.objective

    @property
    def live(self) -> list[TrialRow]:
        """Trials that were proposed and have not ended."""
        return list(self._live.values())

    def scores_at(self, epoch: int) -> Mapping[int, float]:
        """Number to finite score of each searched trial that reported this epoch, first come first."""
        return self._scores.get(epoch, {})

    def best(self) -> TrialRow | None:
        """The trial whose reruns are the best where the top is confirmed, else the first of the leaders."""
        confirmed = self.confirmed()
        if confirmed and confirmed[0].scores:
            return self.trials[confirmed[0].number]
        leaders = self.leaders(1)
        return self.trials[leaders[0]] if leaders else None

    def confirmed(self) -> list[Confirmed]:
        """Trials rerun with new seeds, the best one first; none while reruns of the top are to come."""
        asked = self.info.confirm
        return self.reruns.confirmed(asked.seeds, self.leaders(asked.top)) if asked else []

    def wanted_reruns(self) -> tuple[list[int], list[int]]:
        """The trials that are to be confirmed as the search stands, and the seeds to do it with."""
        asked = self.info.confirm
        return (self.leaders(asked.top), seeds(self.info.seed, asked.seeds)) if asked else ([], [])

    def reruns_to_come(self) -> list[tuple[int, int]]:
        """Trial and seed of each rerun that is not begun yet, seed by seed: a confirmation that is cut short
        has seen all of the top about equally often."""
        top, each = self.wanted_reruns()
        begun = {(number, rerun.seed) for number in self.reruns.numbers for rerun in self.reruns.of(number)}
        return [(number, seed) for seed in each for number in top if (number, seed) not in begun]

    @property
    def unfinished_reruns(self) -> list[TrialRow]:
        """Reruns that have begun and not ended."""
        return [trial for trial in self.live if trial.confirms is not None]

    @property
    def is_to_be_confirmed(self) -> bool:
        """Whether the winner is still to be found among the top."""
        return bool(self.reruns_to_come() or self.unfinished_reruns)

    def nth(self, number: int) -> int:
        """Which of the searched trials one is, from 0; its number, where nothing was rerun before it."""
        return bisect.bisect_left(self.searched, number, key=lambda trial: trial.number)

    def leaders(self, count: int) -> list[int]:
        """Numbers of the best searched trials that ended well, the best one first; the earlier wins a tie."""
        return self._leaders.first(count)

    def would_lead(self, number: int, count: int = 1) -> bool:
        """Whether a trial, if it ended well now, would be among so many best."""
        return self._leaders.would_lead(self.trials[number], count)

    def _rank_epoch(self, trial: TrialRow, epoch: int) -> None:
        if trial.confirms is None and math.isfinite(score := trial.epochs[epoch].score):
            self._scores.setdefault(epoch, {})[trial.number] = score

    def _list(self, trial: TrialRow) -> None:
        self.trials.append(trial)
        if trial.confirms is None:
            self.searched.append(trial)
        else:
            self.reruns.add(trial)

    def _settle(self, trial: TrialRow) -> None:
        self._live.pop(trial.number, None)
        if trial.confirms is None:
            self._leaders.add(trial)


class Leaders:
    """Trials that ended well (finished or pruned) and have a finite score; the earlier one wins a tie."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._ranks: list[tuple[float, int]] = []  # the best one last

    def add(self, trial: TrialRow) -> None:
        """Take in a trial that has ended, however it did."""
        rank = self._rank(trial)
        if trial.status in ("finished", "pruned") and rank is not None:
            bisect.insort(self._ranks, rank)

    def first(self, count: int) -> list[int]:
        """Numbers of the best trials, the best one first."""
        return [-number for _, number in reversed(self._ranks[-count:])]

    def would_lead(self, trial: TrialRow, count: int) -> bool:
        """Whether a trial, if it ended well now, would be among so many best."""
        rank = self._rank(trial)
        return rank is not None and (len(self._ranks) < count or rank > self._ranks[-count])

    def _rank(self, trial: TrialRow) -> tuple[float, int] | None:
        score = trial.best_score(self._objective)
        return None if score is None else (self._objective.sign * score, -trial.number)
