"""Whether a sweep that runs has a new best trial, for whoever tells it."""

from __future__ import annotations

from sweeps.common.objective import Losses
from sweeps.record.record import Record


class NewBest:
    """What is better than all that was told, and than the best trial of the record as it is now.

    A leader that diverges or begins anew leaves a worse one in its place, which is no news. With several
    objectives there is no order, and another knee of the front is news.

    Args:
        record: of the sweep.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._told = self._best()

    def is_found(self) -> bool:
        """Whether there is one, which counts as told."""
        best = self._best()
        if best is None or best == self._told:
            return False
        are_several = self._record.objectives.are_several
        if self._told is not None and not are_several and best[1] >= self._told[1]:
            return False
        self._told = best
        return True

    def _best(self) -> tuple[int, Losses] | None:
        best = self._record.best()
        losses = None if best is None else best.losses(self._record.objectives)
        return None if best is None or losses is None else (best.number, losses)
