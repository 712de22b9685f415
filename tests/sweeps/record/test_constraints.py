"""Trials that miss a constraint: why, how they end, and what is told of the first ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sweeps.common.objective import Constraint, Objectives
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.constraints import FIRST, is_missed, unmet, why_missed
from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose
from tests.support.contexts import context_of, said

BOUNDS = ["size_m<=5", "ms<20"]
OBJECTIVES = Objectives.parse(["acc"], "max", BOUNDS)


def record_of(folder: Path, *sizes: float, status: Status = "finished") -> Record:
    """A record with a trial of each size, which has ended."""
    record = Record.create(folder, "s", "max", {"metric": "acc", "constraints": BOUNDS})
    for number, size in enumerate(sizes):
        propose(record, {"width": number})
        record.report(number, 1, 0.5 + number / 100, {"acc": 0.5, "size_m": size, "ms": 3.0}, 1.0)
        record.end(number, status)
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


@pytest.mark.parametrize(
    ("constraint", "value", "shown"),
    [
        *(("m<=5", 5.00001, "5.00001"), ("m<=5", 5.0000000000000009, "5.000000000000001")),
        *(("m<=5.0001", 5.0003, "5.0003"), ("m>=0.99999", 0.99998, "0.99998")),
        *(("m>=5.0000001", 5.00000005, "5"), ("m<=1234567.0", 1_234_568.0, "1.235e+06")),
        *(("m<=5", 7.2468, "7.247"), ("m<20", 20.0, "20"), ("m<=5", math.inf, "inf")),
    ],
)
def test_a_value_that_misses_a_bound_by_little_does_not_read_as_if_it_met_it(
    constraint: str, value: float, shown: str
) -> None:
    objectives = Objectives.parse(["acc"], "max", [constraint])
    assert why_missed(objectives, {"m": value}) == f"m {shown} misses the constraint {constraint}"
    if shown != "inf":
        assert Constraint.parse(constraint).excess({"m": float(shown)}) > 0


def test_a_trial_that_misses_one_is_infeasible_and_never_leads(tmp_path: Path) -> None:
    record = record_of(tmp_path, 4.0, 6.0, 5.0)
    for seen in (record, Record.read(tmp_path)):
        assert [trial.status for trial in seen.trials] == ["finished", "infeasible", "finished"]
        assert seen.leaders(9) == [2, 0]
    assert record.trials[1].reason == "size_m 6 misses the constraint size_m<=5 in epoch 1"
    propose(record, {"width": 3})
    record.report(3, 1, 0.99, {"acc": 0.99, "size_m": 9.0, "ms": 3.0}, 1.0)
    assert 3 not in record.ended_leaders(9, if_ended=3)
    assert record.losses_at(1)[3][0] == pytest.approx(0.8)


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_did_not_end_well_keeps_its_own_reason(status: Status, tmp_path: Path) -> None:
    trial = record_of(tmp_path, 9.0, status=status).trials[0]
    assert (trial.status, trial.reason) == (status, "")


def test_it_is_told_where_the_first_trials_all_miss_them_and_by_how_much(tmp_path: Path) -> None:
    assert not unmet(record_of(tmp_path, *[9.0] * (FIRST - 1)))
    (tmp_path / "b").mkdir()
    record = record_of(tmp_path / "b", *[9.0] * (FIRST - 1), 1_234.5)
    text = f"None of the first {FIRST} trials meets the constraints: size_m<=5 (the nearest was 9). If no"
    assert unmet(record).startswith(text)
    context = context_of(tmp_path, record, SweepConfig())
    context.tell_unmet()
    context.tell_unmet()
    (line,) = said(context)
    assert line.startswith(text), "it is told once"


def test_how_near_they_came_is_that_of_the_numbers_and_not_of_their_words(tmp_path: Path) -> None:
    record = record_of(tmp_path, *[9.0] * (FIRST - 1), 5.00001)
    assert "size_m<=5 (the nearest was 5.00001). If" in unmet(record)


def test_what_is_known_of_a_refused_trial_is_in_the_record(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "constraints": BOUNDS})
    for number in range(FIRST):
        propose(record, {"width": number})
        known = {"size_m": 6.0 + number / 1e6, "flops": 1.0}
        record.end(number, "infeasible", why_missed(OBJECTIVES, known), static_metrics=known)
    for seen in (record, Record.read(tmp_path)):
        assert seen.trials[3].static_metrics == {"size_m": 6.000003, "flops": 1.0}
        assert "constraints: size_m<=5 (the nearest was 6). If" in unmet(seen)


def test_it_is_not_told_where_a_trial_has_met_them(tmp_path: Path) -> None:
    record = record_of(tmp_path, *[9.0] * FIRST)
    propose(record, {"width": 99})
    record.report(FIRST, 1, 0.1, {"acc": 0.1, "size_m": 1.0, "ms": 3.0}, 1.0)
    assert not unmet(record)
