"""Trials with their losses, in order: the best first, by one objective or by several."""

from __future__ import annotations

import bisect

import numpy as np

from sweeps.common import pareto
from sweeps.common.objective import Losses


class BestFirst:
    """Numbers of trials, the best first, as trials are added.

    By one objective a new trial moves no other, so the order is kept; by several it may move all (see
    `common/pareto.py`), so the order is found again when it is asked for.
    """

    def __init__(self) -> None:
        self._ranks: list[tuple[Losses, int]] = []
        """Losses and number: by one objective in order, by several as they came."""
        self._fronts: list[list[int]] | None = []
        """By several objectives, the numbers by front; None where it has to be found."""
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def add(self, number: int, losses: Losses) -> None:
        """Add a trial.

        Args:
            number: of the trial.
            losses: finite.
        """
        if len(losses) == 2:
            bisect.insort(self._ranks, (losses, number))
        else:
            self._ranks.append((losses, number))
            self._fronts = None

    def first(self, count: int) -> list[int]:
        """So many of the best."""
        if self._is_by_one:
            return [number for _, number in self._ranks[:count]]
        return list(self._order())[:count]

    def front(self) -> list[int]:
        """Those that no other one dominates, the knee first; by one objective the best one alone."""
        if self._is_by_one:
            return self.first(1)
        self._order()
        assert self._fronts is not None
        return self._fronts[0]

    def place(self, number: int, losses: Losses) -> int:
        """How many are before a trial of the order, or would be, if it were added."""
        if len(losses) == 2:
            return bisect.bisect_left(self._ranks, (losses, number))
        if number in (places := self._order()):
            return places[number]
        return self.with_trial(number, losses).place(number, losses)

    def with_trial(self, number: int, losses: Losses) -> BestFirst:
        """The same and another trial."""
        other = BestFirst()
        other._ranks = [rank for rank in self._ranks if rank[1] != number]
        other.add(number, losses)
        return other

    @property
    def _is_by_one(self) -> bool:
        return not self._ranks or len(self._ranks[0][0]) == 2

    def _order(self) -> dict[int, int]:
        """By several objectives: number to place, in order."""
        if self._fronts is None:
            self._ranks.sort(key=lambda rank: rank[1])  # equal ones by number, as they are by one objective
            numbers = [number for _, number in self._ranks]
            fronts = pareto.best_first(np.array([losses for losses, _ in self._ranks]))
            self._fronts = [[numbers[row] for row in front] for front in fronts]
            in_order = (number for front in self._fronts for number in front)
            self._places = {number: place for place, number in enumerate(in_order)}
        return self._places
