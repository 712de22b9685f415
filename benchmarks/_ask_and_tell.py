"""Slots in which the trials of a search that is asked and told train, with a clock of its own."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from benchmarks._problems import Epoch, Problem


class Search(Protocol):
    """Proposes points, and stops trials."""

    def propose(self) -> Mapping[str, Any]:
        """The point of the next trial; the first trial is number 0."""

    def hear(self, number: int, epoch: int, score: float, is_last: bool) -> Collection[int]:
        """Of an epoch of a trial. Returns the trials to stop: this one, or others that train."""


def replay(problem: Problem, slots: int, search: Search) -> Iterator[Epoch]:
    """Epochs as they come in, without an end. A trial that is told to stop frees its slot at once."""
    running: list[tuple[float, int, int, int]] = []
    numbers, events, now = itertools.count(), itertools.count(), 0.0
    curves = []
    while True:
        while len(running) < slots:
            curves.append(problem.curve(search.propose()))
            heapq.heappush(running, (now + curves[-1].seconds[0], next(events), 1, next(numbers)))
        now, _, epoch, number = heapq.heappop(running)
        curve = curves[number]
        yield Epoch(f"{number:05d}", curve.point, epoch, curve.scores[epoch - 1])
        is_last = epoch == len(curve.scores)
        stopped = search.hear(number, epoch, curve.scores[epoch - 1], is_last)
        if not is_last:
            heapq.heappush(running, (now + curve.seconds[epoch], next(events), epoch + 1, number))
        if stopped:
            running = [each for each in running if each[-1] not in stopped]
            heapq.heapify(running)
