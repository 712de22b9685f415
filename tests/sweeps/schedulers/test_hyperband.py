"""Hyperband played without Ray's processes: against Ray's own, through kills, failures and odd sizes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import HyperBandForBOHB

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers import hyperband
from sweeps.schedulers.hyperband import Scheduler as Hyperband
from sweeps.search.rungs import Cohort
from tests.conftest import propose
from tests.support.confirmed import add, rerun, searched
from tests.sweeps.schedulers.play import FakeTrial, Mode, Play, new_record, resumed


def play(folder: Path, config: SweepConfig, mode: Mode = "max", **how: Any) -> Play:
    record = new_record(folder, config, mode)
    return Play(config, Hyperband.build(config, record), record, seed="0", **how)


@pytest.mark.parametrize(
    ("max_epochs", "factor", "slots", "mode"), [(27, 3, 2, "max"), (9, 3, 1, "min"), (8, 2, 5, "max")]
)
def test_it_trains_every_trial_as_far_as_rays_hyperband_for_bohb(
    max_epochs: int, factor: int, slots: int, mode: Mode, tmp_path: Path
) -> None:
    """In a first band: later Ray fills up brackets of which trials have ended."""
    rungs = {"max_epochs": max_epochs, "grace_epochs": 1, "reduction_factor": factor}
    config = SweepConfig.from_settings(
        **rungs, num_trials=sum(n for n, _ in hyperband.band(SweepConfig.from_settings(**rungs)))
    )
    rays = HyperBandForBOHB("epoch", "score", mode, max_t=max_epochs, reduction_factor=factor)
    expected = Play(config, rays, None, seed="1", slots=slots).run()
    ours = play(tmp_path, config, mode, slots=slots)
    assert ours.run() == expected
    assert ours.max_running == slots
    assert len(set(expected.values())) == len(hyperband.rungs(config)) + 1


@pytest.mark.parametrize("trials", [1, 2, 5, 9, 10, 17, 18, 24, 40])
@pytest.mark.parametrize("slots", [1, 4])
def test_every_trial_ends_at_a_rung_and_the_plan_knows_how_many_epochs_that_takes(
    trials: int, slots: int, tmp_path: Path
) -> None:
    config = SweepConfig.from_settings(num_trials=trials)
    reached = play(tmp_path, config, slots=slots).run()
    assert set(reached.values()) <= {3, 9, 27}
    assert sum(reached.values()) == Hyperband.expected_epochs(config)
    assert len(reached) == trials


@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("trials", [9, 24, 100])
def test_no_more_wait_than_the_plan_says(trials: int, slots: int, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=trials)
    played = play(tmp_path, config, slots=slots)
    most = 0
    while played._start():
        played._report(played.random.choice(played._running()))
        most = max(most, sum(trial.status == Trial.PAUSED for trial in played.trials))
    assert 0 < most <= Hyperband.most_waiting(config, slots) <= trials


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_it_ends_each_trial_where_it_would_have_anyway(
    seed: int, mode: Mode, tmp_path: Path
) -> None:
    config = SweepConfig.from_settings(num_trials=24)
    whole = play(tmp_path / "whole", config, mode).run()
    record = new_record(tmp_path / "killed", config, mode)
    kills = random.Random(seed)
    while True:
        resumed(Hyperband, config, record, f"{seed}{len(record.trials)}").run(kills.randint(1, 25))
        if record.trials and not record.live and len(record.trials) == 24:
            break
        record = Record.read(tmp_path / "killed")
    assert {row.number: max(row.epochs) for row in record.trials} == whole
    assert Counter(row.status for row in record.trials)["finished"] == sum(e == 27 for e in whole.values())


def test_a_trial_waits_for_all_of_its_bracket_and_for_no_other(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=17)
    record = new_record(tmp_path, config)
    for number in range(10):
        propose(record, {})
        if number < 8:
            record.report(number, 3, number / 10, {}, 1.0)
            assert Hyperband.waits_at(config, record, number, 3)
    record.report(9, 3, 0.99, {}, 1.0)  # of the next bracket, whose first rung is 9
    assert Hyperband.waits_at(config, record, 0, 3)
    assert not Hyperband.waits_at(config, record, 9, 3)
    record.report(8, 3, 0.5, {}, 1.0)
    decisions = {number: Hyperband.for_record(config, record).decide(number, 3) for number in range(9)}
    assert decisions == dict.fromkeys(range(9), "STOP") | dict.fromkeys((6, 7, 5), "CONTINUE")


@pytest.mark.parametrize("fails", [{0: 0}, {0: 2, 4: 3, 8: 5}, dict.fromkeys(range(9), 1)])
def test_nobody_waits_for_a_trial_that_failed(fails: dict[int, int], tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=20)
    played = play(tmp_path, config, fails=fails)
    reached = played.run()
    assert not played.record.live if played.record else False
    for number, epoch in reached.items():
        # One that fails behind a rung where it was stopped has not come to it.
        assert epoch in (3, 9, 27) or epoch == fails[number]
    early = {number: after for number, after in fails.items() if after < 3}  # before any rung
    assert {number: reached[number] for number in early} == early


def test_more_trials_open_a_new_band_and_judge_no_bracket_anew(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=12)  # a bracket of 9, and 3 of the next one's 5
    before = play(tmp_path, config).run()
    record, more = Record.read(tmp_path), SweepConfig.from_settings(num_trials=25)
    record.note("planned", [12, 25])
    ends = {number: FakeTrial(number, Trial.TERMINATED, epoch) for number, epoch in before.items()}
    again = Play(more, Hyperband.build(more, record), record, seed="2", trials=list(ends.values()))
    after = again.run()
    assert {number: after[number] for number in before} == before
    bracket = hyperband.bracket_of(more, record.planned_trials, 12)
    assert bracket == Cohort(12, (3, 9, 27), (9, 3, 1), waits=True)
    assert len(after) == 25
    assert not record.live


@pytest.mark.parametrize("planned", [[17], [9, 17]])
def test_a_space_without_more_points_closes_its_last_bracket(planned: list[int], tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=17)
    record = new_record(tmp_path, config)
    record.note("planned", planned)
    for number in range(4):
        propose(record, {})
        record.report(number, 3, number / 10, {}, 1.0)
    assert Hyperband.waits_at(config, record, 3, 3)
    record.plan_trials(len(record.searched))
    assert record.planned_trials == [4]
    assert [Hyperband.for_record(config, record).decide(number, 3) for number in range(4)] == [
        *("STOP", "STOP"),
        *("CONTINUE", "CONTINUE"),
    ]
    assert Record.read(tmp_path).planned_trials == [4]


def test_the_brackets_of_a_band_have_the_sizes_of_the_paper() -> None:
    config = SweepConfig.from_settings(max_epochs=81, grace_epochs=1, reduction_factor=3)
    assert [size for size, _ in hyperband.band(config)] == [81, 34, 15, 8, 5]
    assert [judged for _, judged in hyperband.band(config)] == [(1, 3, 9, 27), (3, 9, 27), (9, 27), (27,), ()]


def test_no_rung_is_lost_to_truncated_logarithms() -> None:
    """Ray loses one of 243 / 3 and of 1000 / 10."""
    for max_epochs, factor in ((243, 3), (1000, 10)):
        config = SweepConfig.from_settings(max_epochs=max_epochs, grace_epochs=1, reduction_factor=factor)
        widest = hyperband.band(config)[0][1]
        assert [factor**power for power in range(len(widest))] == list(widest)
        assert widest[-1] * factor == max_epochs


def test_brackets_are_filled_as_if_nothing_had_been_rerun(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=10, max_epochs=3, grace_epochs=1, reduction_factor=3)
    decided = []
    for place, seen in (("without", 0), ("with", 2)):
        (tmp_path / place).mkdir()
        record = searched(tmp_path / place, 0.1, 0.2, 0.3, 0.4, 0.5)
        record.note("planned", [5, 10])
        for number in record.leaders(9)[:seen]:
            rerun(record, number, 11, 9.0)
        added = [add(record, score).number for score in (0.2, 0.9, 0.8, 0.1, 0.1)]
        assert added[0] == 5 + seen
        decided.append([Hyperband.for_record(config, record).decide(number, 1) for number in added])
    assert decided[0] == decided[1]
    assert "STOP" in decided[0]
