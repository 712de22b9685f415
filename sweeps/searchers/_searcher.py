"""What the searchers share: they propose from the record, one trial at a time, none twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ray.tune.search import Searcher

from sweeps.points import Point, Space, told
from sweeps.record import Record

Propose = Callable[[int], Iterator[Point]]
"""Trial number to candidates, best first; the first that is new is taken."""


class RecordSearcher(Searcher):
    """A Tune searcher that reads the record instead of keeping results of its own.

    Trials that the record holds unfinished, of a run that broke off, come first.

    Args:
        record: what was tried, and how it went.
        space: the checked space.
        propose: candidates for the trial of a number.
        seed: the seed that every trial trains with.
        slots: trials that may run at a time. Tune asks ahead of need; a proposal that waits would
            not know of the results that come in meanwhile.
    """

    def __init__(self, record: Record, space: Space, propose: Propose, seed: int) -> None:
        super().__init__()
        self.slots = 1
        self._record = record
        self._propose = propose
        self._seed = seed
        self._space = space
        self._waiting = [trial.number for trial in record.live]
        self._seen = {trial.point.key for trial in record.trials}

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config, None when all slots are taken, FINISHED when nothing is new."""
        if len(self._record.live) - len(self._waiting) >= self.slots:
            return None
        if self._waiting:
            return _config(self._record, self._waiting.pop(0))
        number = len(self._record.trials)
        for point in self._propose(number):
            if point.key not in self._seen:
                self._seen.add(point.key)
                self._record.begin(point, told(self._space, point), self._seed)
                return _config(self._record, number)
        return Searcher.FINISHED

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing to do: the record hears of it."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to do: a resume rebuilds a searcher from the record."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to do: a resume rebuilds a searcher from the record."""


def _config(record: Record, number: int) -> dict[str, Any]:
    trial = record.trials[number]
    return {
        "number": number,
        "trainable": trial.trainable,
        "params": dict(trial.params),
        "fixed": dict(trial.fixed),
        "seed": trial.seed,
    }
