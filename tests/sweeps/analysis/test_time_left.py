"""The time left of sweeps whose rest is known: no luck, equal epochs, exact promotions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from sweeps.analysis.standing import Ahead
from sweeps.analysis.time_left import WIDEST, TimeLeft, range_of, time_left
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.schedulers import asha, halving, hyperband, none
from sweeps.search import cohorts
from tests.conftest import propose
from tests.sweeps.plan.test_plan import plan_of

EPOCH_S = 10.0
NEAR = 0.35
"""Of a time left of equal trials: the plays spread by what is not known of the machine."""


def record_of(folder: Path, epochs: Mapping[int, int], planned: int = 1, **about: object) -> Record:
    """Trial number to epochs that it has trained."""
    runs = [{"started": time.time(), "num_trials": planned}]
    record = Record.create(folder, "s", "max", {"metric": "acc", "runs": runs, **about})
    for number, last in epochs.items():
        propose(record, {})
        for epoch in range(1, last + 1):
            record.report(number, epoch, 1 - number / 1000, {}, EPOCH_S)
    return record


def left_of(folder: Path, record: Record, scheduler: ModuleType, trials: int, slots: int = 1) -> TimeLeft:
    """By a plan of so many trials of at most 9 epochs."""
    plan: Plan = plan_of(folder, scheduler, num_trials=trials, max_epochs=9, grace_epochs=1)
    there = cohorts.of(scheduler, plan.config, [trials])
    found = time_left(record, Ahead(there, slots, plan.waits(record), is_scored=False), time.time(), 1000.0)
    assert found is not None
    return found


def test_before_the_first_epoch_nothing_is_known(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 0})
    there = cohorts.of(none, SweepConfig.of(num_trials=2), [2])
    assert time_left(record, Ahead(there, 1), time.time(), 1.0) is None


@pytest.mark.parametrize(("slots", "rounds"), [(1, 12), (2, 6), (4, 3), (5, 3), (12, 1), (50, 1)])
def test_without_pruning_the_last_trials_leave_slots_idle(slots: int, rounds: int, tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(30), 9))
    for number in range(30):
        record.end(number, "finished")
    found = left_of(tmp_path, record, none, trials=42, slots=slots)
    assert found.best_s == pytest.approx(rounds * 9 * EPOCH_S, rel=NEAR)
    assert found.low_s < found.best_s < found.high_s


def test_a_paused_trial_that_will_continue_counts_and_others_do_not(tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(26), 1), planned=27)
    for number in range(26):
        if halving.ends_at(SweepConfig.of(max_epochs=9, grace_epochs=1), record, number, 1):
            record.end(number, "pruned")
    found = left_of(tmp_path, record, halving, trials=27)
    assert found.best_s == pytest.approx((1 + 9 * 2 + 3 * 6) * EPOCH_S, rel=NEAR)


def test_brackets_of_hyperband_are_counted_as_they_are(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 1})
    whole = cohorts.expected_epochs(hyperband, SweepConfig.of(num_trials=17, max_epochs=9, grace_epochs=1))
    found = left_of(tmp_path, record, hyperband, trials=17)
    assert found.best_s == pytest.approx((whole - 1) * EPOCH_S, rel=NEAR)


@pytest.mark.parametrize(("goes_on", "share"), [(20, 1.0), (4, 0.2)])
def test_at_once_as_many_continue_as_did_so_far(goes_on: int, share: float, tmp_path: Path) -> None:
    record = record_of(tmp_path, {number: 9 if number < goes_on else 1 for number in range(20)})
    for number in range(20):
        record.end(number, "finished" if number < goes_on else "pruned")
    found = left_of(tmp_path, record, asha, trials=60)
    assert found.best_s == pytest.approx(40 * (1 + 8 * share) * EPOCH_S, rel=0.5)


def test_trials_that_diverge_at_once_make_the_rest_shorter(tmp_path: Path) -> None:
    record = record_of(tmp_path, {number: 9 if number < 10 else 1 for number in range(20)})
    for number in range(20):
        record.end(number, "finished" if number < 10 else "diverged")
    found = left_of(tmp_path, record, none, trials=40)
    assert found.best_s == pytest.approx(20 * (9 + 1) / 2 * EPOCH_S, rel=NEAR)


@pytest.mark.parametrize("scheduler", [none, halving, hyperband, asha])
def test_of_very_many_trials_only_the_last_are_played(scheduler: ModuleType, tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 1})
    config = SweepConfig.of(num_trials=20_000, max_epochs=9, grace_epochs=1)
    found = left_of(tmp_path, record, scheduler, trials=20_000, slots=4)
    assert found.low_s < cohorts.expected_epochs(scheduler, config) * EPOCH_S / 4 < found.high_s


def test_reruns_follow_the_search(tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(20), 9), confirm={"top": 2, "seeds": 3})
    for number in range(20):
        record.end(number, "finished")
    found = left_of(tmp_path, record, none, trials=20, slots=2)
    assert found.best_s == pytest.approx(3 * 9 * EPOCH_S, rel=NEAR)


@pytest.mark.parametrize(("share", "widest"), [(0.1, 3.0), (0.25, 2.0), (0.5, 1.5), (0.75, 1.5)])
def test_the_range_is_never_wider_than_promised(share: float, widest: float) -> None:
    courses = [10.0 * 1.1**n for n in range(-50, 51)]
    found = range_of(courses, 10.0 * share / (1 - share))
    assert found.high_s / found.low_s == pytest.approx(widest)
    assert found.low_s < found.best_s < found.high_s


def test_a_range_is_as_narrow_as_the_plays(tmp_path: Path) -> None:
    found = range_of([100.0, 101.0, 102.0] * 30, 1.0)
    assert found == TimeLeft(pytest.approx(101.0), pytest.approx(100.0), pytest.approx(102.0))


def test_bounds_become_narrower() -> None:
    assert [ratio for _, ratio in WIDEST] == sorted(ratio for _, ratio in WIDEST)


def test_later_and_at_most() -> None:
    left = TimeLeft(100.0, 50.0, 200.0)
    assert left.later(60.0) == TimeLeft(40.0, 0.0, 140.0)
    assert left.at_most(120.0) == TimeLeft(100.0, 50.0, 120.0)
