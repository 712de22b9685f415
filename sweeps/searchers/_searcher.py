"""What the searchers share: they propose from the record, one trial at a time, none twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ray.tune.search import Searcher

from sweeps.config import Knob, SweepConfig
from sweeps.record import Record
from sweeps.rows import TrialRow
from sweeps.space import Space

Propose = Callable[[int], Iterator[dict[str, Knob]]]
"""Trial number to candidates, best first; the first that is new is taken."""
WaitsAt = Callable[[SweepConfig, Record, int, int], bool]
"""A scheduler's: whether the trial of a number, which reported this epoch, is paused there."""


class RecordSearcher(Searcher):
    """A Tune searcher that reads the record instead of keeping results of its own.

    Trials that the record holds unfinished, of a run that broke off, come first.

    Args:
        record: what was tried, and how it went.
        space: the checked space.
        propose: candidates for the trial of a number.
        config: the seed that every trial trains with, and how many trials there are to be.
    """

    slots: int = 1
    """Trials that may run at a time. Tune asks ahead of need; a proposal that waits would not know of
    the results that come in meanwhile."""
    waits_at: WaitsAt | None = None
    """Of a scheduler that pauses."""

    def __init__(self, record: Record, space: Space, propose: Propose, config: SweepConfig) -> None:
        super().__init__()
        self._record = record
        self._propose = propose
        self._config = config
        self._most = config.num_trials or math.inf
        self._fixed = space.fixed
        self._words = space.distributions()
        self._waiting = [trial.number for trial in record.live]
        self._seen = {key_of(trial.params) for trial in record.trials}

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config, None when all slots are taken, FINISHED when nothing is to come."""
        if self._taken() >= self.slots:
            return None
        if (waiting := self._next_waiting()) is not None:
            self._waiting.remove(waiting)
            return _config(self._record, waiting)
        number = len(self._record.trials)
        for params in self._propose(number) if number < self._most else ():
            if (key := key_of(params)) not in self._seen:
                self._seen.add(key)
                self._record.begin(params, self._words, self._config.seed, self._fixed)
                return _config(self._record, number)
        if number < self._most:  # the space has no more
            self._most = number
            self._record.propose_no_more()
        # Tune ends idle processes once it is told; of those that paused trials left, none is too many.
        return None if self.waits_at and self._record.live else Searcher.FINISHED

    def _taken(self) -> int:
        """Slots of trials that train or are about to; one that waits for others leaves its slot."""
        waiting = set(self._waiting)
        return sum(not self._waits(t) for t in self._record.live if t.number not in waiting)

    def _next_waiting(self) -> int | None:
        """The next trial of a run before that has something to do."""
        trials = self._record.trials
        return next((number for number in self._waiting if not self._waits(trials[number])), None)

    def _waits(self, trial: TrialRow) -> bool:
        """Whether it can't go on before others of its bracket have come as far."""
        if self.waits_at is None or not trial.epochs:
            return False
        return self.waits_at(self._config, self._record, trial.number, max(trial.epochs))

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
        "params": dict(trial.params),
        "fixed": dict(trial.fixed),
        "seed": trial.seed,
    }


def key_of(params: Any) -> tuple[Any, ...]:
    """Params as something that a set can hold."""
    return tuple(sorted(params.items()))
