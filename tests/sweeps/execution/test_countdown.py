"""The time left in words, and how seldom it is computed anew."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from sweeps.analysis.time_left import TimeLeft
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.output import countdown
from sweeps.execution.output.countdown import Countdown
from sweeps.execution.run_context import RunContext
from sweeps.execution.stopping import End
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.drivers import driver_of

CONFIG = SweepConfig.of(num_trials=4, max_epochs=9, metric="val_acc", mode="max")


@pytest.fixture
def driver(tmp_path: Path) -> RunContext:
    record = Record.create(tmp_path, "s", "max", {"metric": "val_acc"})
    propose(record, {})
    return driver_of(tmp_path, record, CONFIG)


def test_before_the_first_epoch_it_says_when_it_will_be_known(driver: RunContext) -> None:
    assert Countdown(driver, lambda: 1).in_words() == "time left: known after the first epoch"


def test_after_an_epoch_it_is_a_guess_and_a_range(driver: RunContext) -> None:
    driver.record.report(0, 1, 0.5, {}, 60.0)
    words = Countdown(driver, lambda: 1).in_words()
    assert words.startswith("about ")
    assert " min left (" in words or " h left (" in words


def test_at_the_very_end_it_is_less_than_a_second(driver: RunContext) -> None:
    left = Countdown(driver, lambda: 1, estimate=lambda *given: TimeLeft(0.0, 0.1, 0.4))
    assert left.in_words() == "less than 1 s left"


def test_a_trial_that_hangs_at_the_very_end_is_not_said_to_end_soon(driver: RunContext) -> None:
    now = [0.0]
    left = Countdown(driver, lambda: 1, lambda: now[0], lambda *given: TimeLeft(0.0, 0.1, 0.4))
    said = [left.in_words()]
    now[0] = 11.0
    said.append(left.in_words())
    assert said == ["less than 1 s left", "time left: not known, the last epochs take longer than before"]


def test_more_slots_take_less_time(driver: RunContext) -> None:
    driver.record.report(0, 1, 0.5, {}, 60.0)
    alone, four = Countdown(driver, lambda: 1)(), Countdown(driver, lambda: 4)()
    assert alone is not None
    assert four is not None
    assert four.best_s < alone.best_s / 2


def test_it_is_computed_anew_only_when_that_takes_little_of_the_time(driver: RunContext) -> None:
    now, costs_s, computed = [0.0], 0.2, []

    def compute(*given: object) -> TimeLeft:
        computed.append(now[0])
        now[0] += costs_s
        return TimeLeft(100.0, 90.0, 110.0)

    left = Countdown(driver, lambda: 1, lambda: now[0], compute)
    while now[0] < 100:
        found = left()
        now[0] += 1.0
    assert len(computed) * costs_s <= 100 * countdown.COST_SHARE + costs_s
    assert found is not None
    assert 80 < found.best_s < 100, "it counts down meanwhile"


def test_the_end_of_the_time_budget_bounds_it(driver: RunContext) -> None:
    def words(budget_s: float) -> str:
        limited = dataclasses.replace(driver, end=End(budget_s / 3600))
        left = Countdown(limited, lambda: 1, estimate=lambda *given: TimeLeft(1200.0, 900.0, 1500.0))
        return left.in_words()

    assert words(3600) == "about 20 min left (15 to 25 min)"
    assert words(1080) == "about 18 min left (15 to 18 min, when --time-budget-hours ends it)"
    assert words(910) == "about 15 min left (when --time-budget-hours ends it)"
    assert words(600) == "10 min left until --time-budget-hours ends it"


def test_a_range_whose_ends_read_the_same_is_left_out(driver: RunContext) -> None:
    left = Countdown(driver, lambda: 1, estimate=lambda *given: TimeLeft(2.0, 1.9, 2.1))
    assert left.in_words() == "about 2 s left"


def test_a_resumed_sweep_tells_it_before_its_first_epoch(tmp_path: Path) -> None:
    about = {"metric": "val_acc", "runs": [{"started": time.time() - 1000.0, "num_trials": 4}]}
    record = Record.create(tmp_path, "s", "max", about)
    for number in range(2):
        propose(record, {})
        for epoch in range(1, 6):
            record.report(number, epoch, 0.5, {}, 10.0)
    record.note("runs", [*record.about["runs"], {"started": time.time() + 0.001, "num_trials": 4}])
    left = Countdown(driver_of(tmp_path, Record.read(tmp_path), CONFIG), lambda: 2)()
    assert left is not None
    assert 1.6 * left.best_s > 40 + 90, "4 epochs of two trials, then 9 of two others, 10 s each"
    assert left.best_s < 1.6 * (40 + 90)
