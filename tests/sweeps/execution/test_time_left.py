"""The time left of sweeps whose rest is known: equal epochs, exact promotions; and in words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.output.time_left import TimeLeft, TimeLeftTeller, time_left
from sweeps.execution.run_context import RunContext
from sweeps.ray_cluster.places.place_division import Allotment
from sweeps.record import record as record_module
from sweeps.record.record import Record
from sweeps.schedulers import asha, halving, hyperband, none
from sweeps.search.record_scheduler import PruningMethod
from tests.conftest import propose
from tests.support.contexts import context_of
from tests.sweeps.plan.test_plan import plan_of

CONFIG = SweepConfig.from_settings(num_trials=4, max_epochs=9, metric="val_acc", mode="max")
EPOCH_S = 10.0


def record_of(folder: Path, epochs: Mapping[int, int], planned: int = 1, **about: object) -> Record:
    """Trial number to epochs that it has trained."""
    runs = [{"started": time.time(), "num_trials": planned}]
    record = Record.create(folder, "s", "max", {"metric": "acc", "runs": runs, "planned": [planned], **about})
    for number, last in epochs.items():
        propose(record, {})
        for epoch in range(1, last + 1):
            record.report(number, epoch, 1 - number / 1000, {}, EPOCH_S)
    return record


def epochs_left(
    folder: Path, record: Record, scheduler: type[PruningMethod], trials: int, slots: int = 1
) -> float:
    """By a plan of so many trials of at most 9 epochs."""
    plan = plan_of(folder, scheduler, num_trials=trials, max_epochs=9, grace_epochs=1)
    there = scheduler.cohorts(plan.config, [trials])
    found = time_left(record, there, slots, 1.0, 1.0)  # no report is as late
    assert found is not None
    assert found.low_s == found.best_s == found.high_s, "all epochs took as long"
    return found.best_s / EPOCH_S


def test_before_the_first_epoch_nothing_is_known(tmp_path: Path) -> None:
    there = none.Scheduler.cohorts(SweepConfig.from_settings(num_trials=2), [2])
    assert time_left(record_of(tmp_path, {0: 0}), there, 1, 0.0, 1.0) is None


@pytest.mark.parametrize(
    ("slots", "least", "most"), [(1, 12, 12), (2, 6, 7), (4, 3, 4), (5, 3, 4), (50, 1, 2)]
)
def test_without_pruning_the_last_trials_leave_slots_idle(
    slots: int, least: int, most: int, tmp_path: Path
) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(30), 9))
    for number in range(30):
        record.end(number, "finished")
    left = epochs_left(tmp_path, record, none.Scheduler, trials=42, slots=slots)
    assert 9 * (least - 0.5) <= left <= 9 * most
    assert slots > 1 or left == pytest.approx(12 * 9)


def test_a_paused_trial_that_will_continue_counts_and_others_do_not(tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(26), 1), planned=27)
    for number in range(26):
        if halving.Scheduler.ends_at(
            SweepConfig.from_settings(max_epochs=9, grace_epochs=1), record, number, 1
        ):
            record.end(number, "pruned")
    assert epochs_left(tmp_path, record, halving.Scheduler, trials=27) == pytest.approx(1 + 9 * 2 + 3 * 6)


def test_brackets_of_hyperband_are_counted_as_they_are(tmp_path: Path) -> None:
    whole = hyperband.Scheduler.expected_epochs(
        SweepConfig.from_settings(num_trials=17, max_epochs=9, grace_epochs=1)
    )
    left = epochs_left(tmp_path, record_of(tmp_path, {0: 1}), hyperband.Scheduler, trials=17)
    assert left == pytest.approx(whole - 1)


def test_where_each_is_judged_at_once_as_many_continue_as_may_be_expected(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=60, max_epochs=9, grace_epochs=1)
    left = epochs_left(tmp_path, record_of(tmp_path, {0: 1}), asha.Scheduler, trials=60)
    assert left == pytest.approx(asha.Scheduler.expected_epochs(config), rel=0.05)


def test_reruns_follow_the_search(tmp_path: Path) -> None:
    record = record_of(tmp_path, dict.fromkeys(range(20), 9), confirm={"top": 2, "seeds": 3})
    for number in range(20):
        record.end(number, "finished")
    assert epochs_left(tmp_path, record, none.Scheduler, trials=20) == pytest.approx(2 * 3 * 9)


def test_the_range_is_that_of_the_trials(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    for number in range(11):
        propose(record, {})
        record.report(number, 1, 0.5, {}, 5.0 + number)
    there = none.Scheduler.cohorts(SweepConfig.from_settings(num_trials=12, max_epochs=9), [12])
    found = time_left(record, there, 1, 1.0, 1.0)
    assert found is not None
    assert (found.low_s / found.best_s, found.high_s / found.best_s) == pytest.approx((0.7, 1.3))


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    record = Record.create(tmp_path, "s", "max", {"metric": "val_acc", "planned": [4]})
    propose(record, {})
    return context_of(tmp_path, record, CONFIG)


def test_before_the_first_epoch_it_says_when_it_will_be_known(context: RunContext) -> None:
    assert TimeLeftTeller(context, lambda: 1).in_words(None) == "time left: known after the first epoch"


def test_without_a_place_it_says_no_time(context: RunContext) -> None:
    context.record.report(0, 1, 0.5, {}, 60.0)
    teller = TimeLeftTeller(context, lambda: 0)
    assert teller.in_words(teller.now()).startswith("about ")
    context.places.allotment = Allotment({}, (), ("other",))
    assert teller.in_words(teller.now()) == "time left: known once it has a place"


def test_more_slots_take_less_time(context: RunContext) -> None:
    slots = [1]
    context.record.report(0, 1, 0.5, {}, 60.0)
    teller = TimeLeftTeller(context, lambda: slots[0])
    alone, slots[0] = teller.now(), 4
    four = teller.now()
    assert alone is not None
    assert four is not None
    assert four.best_s < alone.best_s / 2


class Clocks:
    """Stand in for the `time` of the record: one may be set, and goes on while the PC sleeps."""

    def __init__(self) -> None:
        self.set_s, self.run_s = time.time(), 0.0

    def time(self) -> float:
        return self.set_s

    def monotonic(self) -> float:
        return self.run_s


@pytest.mark.parametrize("jump_s", [8 * 3600.0, -3600.0])
def test_a_pc_that_has_slept_and_a_clock_that_is_set_change_no_pace(
    jump_s: float, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks, record = Clocks(), context.record
    monkeypatch.setattr(record_module, "time", clocks)
    record.start_clock()
    teller, found = TimeLeftTeller(context, lambda: 1), list[float]()
    for epoch in (1, 2, 3, 4):
        clocks.set_s, clocks.run_s = clocks.set_s + 60.0 + jump_s * (epoch == 3), clocks.run_s + 60.0
        record.report(0, epoch, 0.5, {}, 60.0)
        left = teller.now()
        assert left is not None
        found.append(left.best_s)
    assert found == pytest.approx([60.0 * (4 * 9 - epoch) for epoch in (1, 2, 3, 4)])


@pytest.mark.parametrize(
    ("left", "budget_s", "words"),
    [
        (TimeLeft(1200.0, 900.0, 1500.0, 40.0), None, "about 20 min left (15 to 25 min)"),
        (TimeLeft(2.0, 1.9, 2.1, 40.0), None, "about 2 s left"),
        (TimeLeft(0.2, 0.1, 0.4, 40.0), None, "less than 1 s left"),
        (TimeLeft(1200.0, 900.0, 1500.0, 40.0), 3600, "about 20 min left (15 to 25 min)"),
        (
            TimeLeft(1200.0, 900.0, 1500.0, 40.0),
            1080,
            "about 18 min left (15 to 18 min, when --time-budget-hours ends it)",
        ),
        (TimeLeft(1200.0, 900.0, 1500.0, 40.0), 910, "about 15 min left (when --time-budget-hours ends it)"),
        (TimeLeft(1200.0, 900.0, 1500.0, 40.0), 600, "10 min left until --time-budget-hours ends it"),
    ],
)
def test_it_is_a_guess_and_a_range_within_the_time_budget(
    left: TimeLeft, budget_s: float | None, words: str
) -> None:
    assert left.in_words(budget_s) == words


def test_a_resumed_sweep_tells_it_before_its_first_epoch(tmp_path: Path) -> None:
    runs = [{"started": time.time() - 1000.0, "num_trials": 4}]
    about = {"metric": "val_acc", "runs": runs, "planned": [4]}
    record = Record.create(tmp_path, "s", "max", about)
    for number in range(2):
        propose(record, {})
        for epoch in range(1, 6):
            record.report(number, epoch, 0.5, {}, 10.0)
    record.note("runs", [*record.about["runs"], {"started": time.time() + 0.001, "num_trials": 4}])
    left = TimeLeftTeller(context_of(tmp_path, Record.read(tmp_path), CONFIG), lambda: 2).now()
    assert left is not None
    assert 1.3 * left.best_s > 40 + 90, "4 epochs of two trials, then 9 of two others, 10 s each"
    assert left.best_s < 1.3 * (40 + 90)
