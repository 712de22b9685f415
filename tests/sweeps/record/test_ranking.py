"""The order of trials: which is the best, and which are the leaders."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose
from tests.support.confirmed import confirmed
from tests.sweeps.record.written import new_record, scored


def test_the_search_hears_of_no_rerun(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    assert list(record.scores_at(1)) == [0, 1, 2]
    assert record.leaders(9) == [1, 2, 0]
    assert [trial.number for trial in record.searched] == [0, 1, 2]


@pytest.mark.parametrize(
    ("mode", "scores", "number", "epoch"),
    [
        ("max", [[0.1, 0.2], [0.9, 0.3], [0.5]], 1, 1),  # by the best epoch, not the last
        ("min", [[0.3, 0.2], [0.9, 0.1], [0.5]], 1, 2),
        ("max", [[0.1], [0.7], [0.7]], 1, 1),  # the earliest trial wins ties
        ("min", [[0.1], [0.1], [0.7]], 0, 1),
        ("max", [[0.1, 0.7, 0.7]], 0, 2),  # and the earliest epoch
        ("min", [[0.7, 0.1, 0.1]], 0, 2),
        ("max", [[-5.0], [-3.0]], 1, 1),
        ("max", [[0.0]], 0, 1),
        ("max", [[math.nan, 0.1], [math.inf]], 0, 2),
        ("min", [[math.nan, 0.1], [-math.inf]], 0, 2),
    ],
)
@pytest.mark.parametrize("status", ["finished", "pruned"])
def test_the_best_trial_is_that_with_the_best_finite_epoch(
    mode: str, scores: list[list[float]], number: int, epoch: int, status: Status, tmp_path: Path
) -> None:
    record = scored(tmp_path, mode, scores, status)
    for seen in (record, Record.read(tmp_path)):
        best = seen.best()
        assert best is not None
        assert (best.number, best.best_epoch(record.objective)) == (number, epoch)


def test_trials_may_end_in_any_order_and_the_earliest_still_wins_ties(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=3)
    for number in (2, 0, 1):
        record.report(number, 1, 0.5, {}, 1.0)
        record.end(number, "finished")
    best, again = record.best(), Record.read(tmp_path).best()
    assert best is not None
    assert again is not None
    assert best.number == again.number == 0


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_went_wrong_is_never_the_best(status: Status, tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.9]], status)
    assert record.best() is None
    propose(record, {"lr": 1.0})
    record.report(1, 1, 0.1, {}, 1.0)
    assert record.best() is None  # it still trains
    record.end(1, "pruned")
    for seen in (record, Record.read(tmp_path)):
        best = seen.best()
        assert best is not None
        assert best.number == 1


def test_a_trial_that_ended_without_an_epoch_is_no_best(tmp_path: Path) -> None:
    assert scored(tmp_path, "max", [[]], "pruned").best() is None


def test_leaders_are_the_best_that_ended_well_the_best_first(tmp_path: Path) -> None:
    record = scored(tmp_path, "min", [[0.3], [0.1], [0.2], [0.1], [math.nan]])
    propose(record, {"lr": 1.0})
    record.report(5, 1, 0.0, {}, 1.0)  # still trains
    for seen in (record, Record.read(tmp_path)):
        assert seen.leaders(1) == [1]
        assert seen.leaders(3) == [1, 3, 2]  # the earlier one first where they tie
        assert seen.leaders(9) == [1, 3, 2, 0]


def test_a_trial_that_went_wrong_leads_nobody(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=3)
    ends: list[Status] = ["failed", "pruned", "diverged"]
    for number, status in enumerate(ends):
        record.report(number, 1, 1.0 - number / 10, {}, 1.0)
        record.end(number, status)
    assert record.leaders(3) == Record.read(tmp_path).leaders(3) == [1]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("score", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
def test_a_trial_would_lead_exactly_when_it_leads_once_it_has_ended(
    mode: str, count: int, score: float, tmp_path: Path
) -> None:
    record = new_record(tmp_path, mode, trials=4)
    for number, other in ((0, 0.1), (3, 0.2), (2, 0.3)):  # one that ties is earlier or later
        record.report(number, 1, other, {}, 1.0)
        record.end(number, "finished")
    record.report(1, 1, score, {}, 1.0)
    expected = record.would_lead(1, count)
    record.end(1, "pruned")
    assert (1 in record.leaders(count)) is expected


def test_a_trial_without_a_finite_score_would_never_lead(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    assert not record.would_lead(0)
    record.report(0, 1, math.nan, {}, 1.0)
    assert not record.would_lead(0)
    record.report(1, 1, -1e9, {}, 1.0)
    assert record.would_lead(1)
