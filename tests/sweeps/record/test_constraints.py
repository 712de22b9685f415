"""Trials that miss a constraint: why, how they end, and what is told of the first ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.common.objective import Objectives
from sweeps.record.constraints import FIRST, end_of, is_missed, unmet, why_missed
from sweeps.record.record import Record
from sweeps.record.sweep_info import WITH_OBJECTIVES
from sweeps.record.trials import Status
from tests.conftest import propose

BOUNDS = ["size_m<=5", "ms<20"]
OBJECTIVES = Objectives.of(["acc"], "max", BOUNDS)


def record_of(folder: Path, *sizes: float, status: Status = "finished") -> Record:
    """A record with a trial of each size, which has ended as the recorder ends it."""
    record = Record.create(folder, "s", "max", {"metric": "acc", "constraints": BOUNDS})
    for number, size in enumerate(sizes):
        propose(record, {"width": number})
        record.report(number, 1, 0.5 + number / 100, {"acc": 0.5, "size_m": size, "ms": 3.0}, 1.0)
        record.end(number, *end_of(record.trials[number], record.objectives, status, ""))
    return record


def test_a_missed_constraint_is_told_from_want_of_memory(tmp_path: Path) -> None:
    record = record_of(tmp_path, 4.0, 6.0)
    propose(record, {"width": 2})
    record.end(2, "infeasible", "does not fit in memory")
    assert [is_missed(trial) for trial in record.trials] == [False, True, False]


def test_each_constraint_that_is_missed_is_named_and_what_is_not_known_is_not_judged() -> None:
    assert why_missed(OBJECTIVES, {"size_m": 7.2, "ms": 20.0}) == (
        "size_m 7.2 misses the constraint size_m<=5; ms 20 misses the constraint ms<20"
    )
    assert why_missed(OBJECTIVES, {"size_m": 5.0}) == ""


def test_a_trial_that_misses_one_is_infeasible_and_never_leads(tmp_path: Path) -> None:
    record = record_of(tmp_path, 4.0, 6.0, 5.0)
    for seen in (record, Record.read(tmp_path)):
        assert [trial.status for trial in seen.trials] == ["finished", "infeasible", "finished"]
        assert seen.leaders(9) == [2, 0]
        assert seen.info.format == WITH_OBJECTIVES
    assert record.trials[1].reason == "size_m 6 misses the constraint size_m<=5 in epoch 1"
    propose(record, {"width": 3})
    record.report(3, 1, 0.99, {"acc": 0.99, "size_m": 9.0, "ms": 3.0}, 1.0)
    assert not record.would_lead(3, 9)
    assert record.losses_at(1)[3][0] == pytest.approx(0.8)


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_did_not_end_well_keeps_its_own_reason(status: Status, tmp_path: Path) -> None:
    trial = record_of(tmp_path, 9.0, status=status).trials[0]
    assert (trial.status, trial.reason) == (status, "")


def test_it_is_told_where_the_first_trials_all_miss_them_and_by_how_much(tmp_path: Path) -> None:
    assert not unmet(record_of(tmp_path, *[9.0] * (FIRST - 1)))
    (tmp_path / "b").mkdir()
    told = unmet(record_of(tmp_path / "b", *[9.0] * (FIRST - 1), 1_234.5))
    assert told.startswith(
        f"None of the first {FIRST} trials meets the constraints: size_m<=5 (the nearest was 9)"
    )


def test_it_is_not_told_where_a_trial_has_met_them(tmp_path: Path) -> None:
    record = record_of(tmp_path, *[9.0] * FIRST)
    propose(record, {"width": 99})
    record.report(FIRST, 1, 0.1, {"acc": 0.1, "size_m": 1.0, "ms": 3.0}, 1.0)
    assert not unmet(record)
