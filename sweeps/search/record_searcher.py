"""What the searchers share: they propose from the record, one trial at a time, none twice."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ray.tune.search import Searcher

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow, Waits
from sweeps.space.point import Point, Space, optuna_point

Propose = Callable[[int], Iterator[Point]]
"""How many trials were proposed before to candidates, best first; the first that is new is taken."""


class RecordSearcher(Searcher):
    """A Tune searcher that reads the record instead of keeping results of its own.

    Trials that the record holds unfinished, of an interrupted run, come first; then the anchors of a sweep
    that refines others. What these tried to its end, and is comparable, is not tried again.

    Args:
        record: what was tried, and how it went.
        space: the checked space.
        propose: candidates for the next trial.
        config: the seed that every trial trains with, and how many trials there are to be.
    """

    slots: int = 1
    """Trials that may run at a time. Tune asks ahead of need; a proposal that waits would not know of
    the results that come in meanwhile."""
    waits: Waits | None = None
    """Of a scheduler that pauses: a trial that waits for others leaves its slot."""
    may_requeue: bool = False
    """Whether a trial may be requeued, because of its PC or its GPU, also when no new one is to come."""

    def __init__(self, record: Record, space: Space, propose: Propose, config: SweepConfig) -> None:
        super().__init__()
        self._record = record
        self._propose = propose
        self._config = config
        self._most = config.num_trials or math.inf
        self._space = space
        self._has_finished = False
        self._to_begin = [trial.number for trial in self._live]
        self._seen = {trial.point.key for trial in record.searched}
        # One that failed there, or was interrupted, has not shown what its point is worth.
        self._known = {trial.point.whole for trial in record.earlier.trials if trial.status != "failed"}

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config, None when all slots are taken, FINISHED when nothing is to come."""
        if self._taken() >= self.slots:
            return None
        if (begun_before := self._next_to_begin()) is not None:
            self._to_begin.remove(begun_before)
            return _config(self._record, begun_before)
        if (begun := self._begin_new()) is not None:
            return _config(self._record, begun.number)
        # Tune ends idle processes once it is told; of those that paused trials left, none is too many.
        self._has_finished = not ((self.waits or self.may_requeue) and self._live)
        return Searcher.FINISHED if self._has_finished else None

    def _begin_new(self) -> TrialRow | None:
        """Begin the next trial of the search; None when there is none."""
        nth = len(self._record.searched)
        for point, origin in self._candidates(nth) if nth < self._most else ():
            if point.key not in self._seen and (origin or point.whole not in self._known):
                self._seen.add(point.key)
                with contextlib.suppress(LookupError, ValueError):  # what only now shows to be no point
                    words = optuna_point(self._space, point)
                    return self._record.begin(point, words, self._config.seed, origin=origin)
        if nth < self._most:  # the space has no more
            self._most = nth
            self._record.propose_no_more()
        return None

    def _candidates(self, number: int) -> Iterator[tuple[Point, str]]:
        """With where they come from: what earlier sweeps found best goes before what is new."""
        for anchor in self._record.earlier.anchors[number : number + 1]:
            yield anchor.point, anchor.origin
        for point in self._propose(number):
            yield point, ""

    def requeue(self, number: int) -> bool:
        """Restart a trial that Tune has ended: hand it out once more; False when Tune asks no more."""
        if not self._has_finished:
            self._to_begin.append(number)
        return not self._has_finished

    @property
    def _live(self) -> Sequence[TrialRow]:
        """Unfinished ones of those that it hands out."""
        return [trial for trial in self._record.live if trial.confirms is None]

    def _taken(self) -> int:
        """Slots of trials that train or are about to."""
        to_begin = set(self._to_begin)
        return sum(t.number not in to_begin and not self._is_waiting(t) for t in self._live)

    def _next_to_begin(self) -> int | None:
        trials = self._record.trials
        return next((number for number in self._to_begin if not self._is_waiting(trials[number])), None)

    def _is_waiting(self, trial: TrialRow) -> bool:
        return self.waits is not None and self.waits(trial)

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
