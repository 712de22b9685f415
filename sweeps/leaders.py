"""Who leads a sweep: the trials that ended well, by their best scores."""

from __future__ import annotations

import bisect

from sweeps.rows import TrialRow


class Leaders:
    """Trials that ended well (finished or pruned) and have a finite score; the earlier one wins a tie."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
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
        score = trial.best_score(self._mode)
        return None if score is None else (score if self._mode == "max" else -score, -trial.number)
