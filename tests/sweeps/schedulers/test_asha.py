"""ASHA, decision by decision against Ray's."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from sweeps.common.objective import Objective, Objectives
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers.asha import Scheduler as Asha
from sweeps.schedulers.asha import continues
from sweeps.search.rungs import rungs
from sweeps.training.report import REPORT, Report
from tests.sweeps.schedulers.play import FakeTrial, Mode, decide, record_of


def test_asha_says_which_epochs_it_judges_at() -> None:
    said = Asha.describe(SweepConfig())
    assert "3, 9, 27 (the end)" in said
    assert "among the best 1/3 of the trials that have reached the rung so far" in said
    assert "nothing is pruned" in Asha.describe(SweepConfig.from_settings(max_epochs=3))


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize(
    ("max_epochs", "grace", "factor"),
    [(27, 3, 3), (27, 1, 3), (16, 1, 2), (50, 4, 3), (100, 1, 10), (9, 9, 3)],
)
def test_asha_decides_as_rays_does(
    max_epochs: int, grace: int, factor: int, mode: Mode, tmp_path: Path
) -> None:
    config = SweepConfig.from_settings(max_epochs=max_epochs, grace_epochs=grace, reduction_factor=factor)
    rays: Any = ASHAScheduler("epoch", "score", mode, max_epochs, grace_period=grace, reduction_factor=factor)
    assert sorted(epoch for epoch, _ in rays._brackets[0]._rungs if epoch < max_epochs) == rungs(config)
    trials = 40
    record = record_of(tmp_path, mode, trials)
    ours = Asha.build(config, record)
    for number in range(trials):
        rays.on_trial_add(None, FakeTrial(number))
    generator = random.Random(f"{max_epochs} {grace} {factor} {mode}")
    reached = dict.fromkeys(range(trials), 0)
    stopped = 0
    while reached:  # any trial may report next, as on several processes
        number = generator.choice(list(reached)[:8])
        epoch = reached[number] = reached[number] + 1
        if epoch == max_epochs:  # the trial ends by itself
            del reached[number]
            continue
        score = round(generator.gauss(0, 1), 1)  # rounded: ties come up
        result = {"epoch": epoch, "score": score}
        expected = rays.on_trial_result(None, FakeTrial(number), result)
        assert decide(ours, record, number, epoch, score) == expected, (number, epoch, score)
        if expected == TrialScheduler.STOP:
            stopped += 1
            del reached[number]
    assert (stopped > 0) == bool(rungs(config))


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_asha_never_ranks_a_score_that_is_not_finite(score: float, mode: Mode, tmp_path: Path) -> None:
    clean, dirty = record_of(tmp_path / "clean", mode, 20), record_of(tmp_path / "dirty", mode, 30)
    in_clean, in_dirty = (
        Asha.build(SweepConfig(), clean),
        Asha.build(SweepConfig(), dirty),
    )
    generator = random.Random(0)
    decisions = []
    for number in range(20):
        if number < 10:  # the trial itself ends as diverged: nothing is left to decide
            assert decide(in_dirty, dirty, 20 + number, 3, score) == "CONTINUE"
        finite = generator.random()
        decisions.append(decide(in_clean, clean, number, 3, finite))
        assert decide(in_dirty, dirty, number, 3, finite) == decisions[-1]
    assert set(decisions) == {"CONTINUE", "STOP"}


def test_asha_stops_a_trial_again_that_was_lost_after_it_was_stopped(tmp_path: Path) -> None:
    """Better ones that came after it change nothing, nor do worse ones."""
    record = record_of(tmp_path, "max", 10)
    scheduler = Asha.build(SweepConfig(), record)
    assert decide(scheduler, record, 0, 3, 0.9) == "CONTINUE"
    assert decide(scheduler, record, 1, 3, 0.5) == "STOP"
    for number in range(2, 10):
        decide(scheduler, record, number, 3, 0.1)
    assert decide(scheduler, record, 1, 3, 0.5) == "STOP"
    assert decide(Asha.build(SweepConfig(), Record.read(tmp_path)), record, 1, 3, 0.5) == "STOP"


def test_asha_lets_a_trial_go_on_again_that_was_lost_after_it_went_on(tmp_path: Path) -> None:
    record = record_of(tmp_path, "max", 10)
    scheduler = Asha.build(SweepConfig(), record)
    assert decide(scheduler, record, 0, 3, 0.1) == "CONTINUE"
    for number in range(1, 10):
        decide(scheduler, record, number, 3, 0.9)
    assert decide(scheduler, record, 0, 3, 0.1) == "CONTINUE"


def test_asha_goes_on_from_a_record_that_another_process_wrote(tmp_path: Path) -> None:
    record = record_of(tmp_path, "max", 10)
    first = Asha.build(SweepConfig(), record)
    for number in range(9):
        decide(first, record, number, 3, 0.9)
    again: Any = Asha.build(SweepConfig(), Record.read(tmp_path))
    result = {REPORT: Report(3, 0.1, {}, 1.0)}
    assert again.on_trial_result(None, FakeTrial(9), result) == "STOP"


def test_asha_lets_a_failure_pass(tmp_path: Path) -> None:
    scheduler: Any = Asha.build(SweepConfig(), record_of(tmp_path, "max", 1))
    result = {"done": True, REPORT: None}
    assert scheduler.on_trial_result(None, FakeTrial(0), result) == "CONTINUE"


def test_asha_ends_no_trial_at_an_epoch_that_it_has_not_reported(tmp_path: Path) -> None:
    record = record_of(tmp_path, "max", 3)
    scheduler = Asha.build(SweepConfig(), record)
    for number in range(2):
        decide(scheduler, record, number, 3, 0.9)
    assert not Asha.ends_at(SweepConfig(), record, 2, 3)
    record.report(2, 3, math.nan, {}, 1.0)
    assert not Asha.ends_at(SweepConfig(), record, 2, 3), "it diverged: nothing of the scheduler's"


def test_without_rungs_no_epoch_is_saved() -> None:
    assert Asha.expected_epochs(SweepConfig.from_settings(num_trials=10, max_epochs=5, grace_epochs=5)) == 50


def test_of_many_trials_one_in_factor_goes_on_at_each_rung() -> None:
    config = SweepConfig.from_settings(num_trials=3000, max_epochs=27, grace_epochs=3, reduction_factor=3)
    synchronous = 3000 * (3 + 6 / 3 + 18 / 9)
    assert Asha.expected_epochs(config) == pytest.approx(synchronous, rel=0.1)


def promoted(score: float, others: Sequence[float], factor: int, mode: Mode) -> bool:
    objectives = Objectives((Objective("m", mode),))
    before = [objectives.losses(other, {}) for other in others]
    return continues(objectives.losses(score, {}), before, factor)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_first_at_a_rung_goes_on(mode: Mode) -> None:
    assert promoted(0.0, [], 3, mode)


@pytest.mark.parametrize(
    ("score", "mode", "expected"),
    [(3.0, "max", True), (2.99, "max", False), (2.0, "min", True), (2.01, "min", False)],
)
def test_one_that_equals_the_quantile_goes_on_and_a_worse_one_does_not(
    score: float, mode: Mode, expected: bool
) -> None:
    # 1, 2, 3, 4 by thirds: the best third begins at 3 (max) or at 2 (min).
    assert promoted(score, [1.0, 2.0, 3.0, 4.0], 3, mode) is expected


def test_about_one_in_factor_goes_on() -> None:
    others = [float(value) for value in range(300)]
    assert sum(promoted(value, others, 3, "max") for value in others) == 100


def test_small_is_good_in_mode_min_as_large_is_in_mode_max() -> None:
    others = [0.3, 0.1, 0.8, 0.5]
    for score in (0.0, 0.1, 0.2, 0.4, 0.6, 0.9):
        assert promoted(score, others, 2, "min") == promoted(-score, [-other for other in others], 2, "max")


def test_a_trial_that_misses_a_constraint_goes_on_only_where_too_few_meet_it() -> None:
    met = [(0.0, loss / 10) for loss in range(6)]
    assert not continues((0.3, -9.0), met, 3)
    assert continues((0.0, 0.05), [*met, *[(0.5, -9.0)] * 3], 3)
    assert continues((0.1, 5.0), [(0.2, 0.0), (0.3, 0.0), (0.4, 0.0)], 3), "the nearest to the bound"
