"""Propose the best trials again, with new seeds."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.record_searcher import RecordSearcher
from sweeps.space.point import Space


class RerunSearcher(RecordSearcher):
    """Hands out the reruns, those that were begun before first."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        super().__init__(record, space, lambda nth: iter(()), config)
        self._to_come = record.reruns_to_come()

    @property
    def _live(self) -> Sequence[TrialRow]:
        return self._record.unfinished_reruns

    def _begin_new(self) -> TrialRow | None:
        if not self._to_come:
            return None
        number, seed = self._to_come.pop(0)
        trial = self._record.trials[number]
        return self._record.begin(trial.point, trial.optuna, seed, confirms=number)
