"""Where a sweep stands."""

from __future__ import annotations

import time
from pathlib import Path

from sweeps.analysis.standing import Ahead, Standing
from sweeps.search.cohorts import Cohort
from tests.sweeps.analysis.test_time_left import record_of


def test_of_trials_that_no_longer_wait_only_the_best_continue(tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(9), 1), planned=9)
    cohort = Cohort(0, (1, 9), (9.0, 3.0), "together")
    standing = Standing(record, Ahead([cohort], slots=2), time.time())
    assert sorted(seat.trial.number for seat in standing.seats) == [0, 1, 2]
    assert list(standing.cohorts[0].further) == [3]
    assert sum(seat.is_ready for seat in standing.seats) == 1


def test_where_each_is_judged_at_once_all_that_train_continue(tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(9), 1), planned=9)
    cohort = Cohort(0, (1, 9), (9.0, 3.0), "at once", 1 / 3)
    assert len(Standing(record, Ahead([cohort], slots=9), time.time()).seats) == 9
