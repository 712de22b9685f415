"""Trials with their losses, in order: the best first, by one objective or by several."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

import numpy as np

from sweeps.common.objective import Losses
from sweeps.common.pareto import Front, Fronts


class BestFirst:
    """Numbers of trials, the best first, as trials are added: in the order of `common/pareto.py`.

    By several objectives a new trial may move others within its front and in those behind it, so the order
    within a front is found when it is asked for.
    """

    def __init__(self) -> None:
        self._fronts = Fronts()
        """By several objectives, those that miss no constraint."""
        self._new: list[tuple[Losses, int]] = []
        """The same, as long as they are in no front yet."""
        self._ranks: list[tuple[Losses, int]] = []
        """All others in order, by `_rank`."""

    def __iter__(self) -> Iterator[int]:
        for front in self._known():
            yield from front.best_first
        for _, number in self._ranks:
            yield number

    def add(self, number: int, losses: Losses) -> None:
        """Add a trial.

        Args:
            number: of the trial, which is not there.
            losses: finite.
        """
        if _is_in_a_front(losses):
            self._new.append((losses, number))
        else:
            bisect.insort(self._ranks, _rank(number, losses))

    def first(self, count: int) -> list[int]:
        """So many of the best."""
        return list(itertools.islice(self, count))

    def front(self) -> list[int]:
        """Those that no other one dominates, the knee first; by one objective the best one alone."""
        fronts = self._known()
        return list(fronts[0].best_first) if fronts else self.first(1)

    def is_of_front(self, number: int, losses: Losses) -> bool:
        """Whether a trial is in the front, or would be, if it were added."""
        if not _is_in_a_front(losses):
            return self.place(number, losses) == 0
        self._known()
        return self._fronts.place(np.array(losses[1:])) == 0

    def place(self, number: int, losses: Losses) -> int:
        """How many are before a trial of the order, or would be, if it were added."""
        fronts = self._known()
        if not _is_in_a_front(losses):
            return sum(map(len, fronts)) + bisect.bisect_left(self._ranks, _rank(number, losses))
        point = np.array(losses[1:])
        within = self._fronts.front_with(number, point).best_first.index(number)
        return sum(map(len, fronts[: self._fronts.place(point)])) + within

    def _known(self) -> list[Front]:
        """The fronts of all that were added."""
        for losses, number in sorted(self._new):  # so few fall back: none dominates one before it
            self._fronts.add(number, np.array(losses[1:]))
        self._new = []
        return self._fronts.every


def _is_in_a_front(losses: Losses) -> bool:
    """Whether there are several objectives, and no constraint is missed."""
    return len(losses) > 2 and not losses[0]


def _rank(number: int, losses: Losses) -> tuple[Losses, int]:
    """By several objectives, those that miss a constraint are ordered by that alone."""
    return losses if len(losses) == 2 else losses[:1], number
