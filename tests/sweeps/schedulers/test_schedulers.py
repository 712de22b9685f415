"""The contract of every scheduler."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.tune.schedulers import TrialScheduler

from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.pareto import best_first
from sweeps.record.record import Record
from sweeps.schedulers import asha, halving, hyperband
from tests.sweeps.schedulers.play import SIZE, Mode, Play, decide, new_record, record_of, resumed


@pytest.mark.parametrize("name", plugins.choices("scheduler"))
def test_a_scheduler_is_built_from_config_and_record(name: str, tmp_path: Path) -> None:
    built = plugins.find("scheduler", name).build(SweepConfig(), record_of(tmp_path, "max", 0))
    assert isinstance(built, TrialScheduler)


@pytest.mark.parametrize("name", plugins.choices("scheduler"))
@pytest.mark.parametrize("max_epochs", [1, 27])
def test_a_scheduler_describes_itself_in_one_line_that_names_it_and_the_end(
    name: str, max_epochs: int
) -> None:
    config = SweepConfig.from_settings(max_epochs=max_epochs, grace_epochs=1)
    line = plugins.find("scheduler", name).describe(config)
    assert "\n" not in line
    assert line.startswith(f"{name}: ")
    assert str(max_epochs) in line


@pytest.mark.parametrize("name", plugins.choices("scheduler"))
def test_a_lone_trial_is_never_stopped(name: str, tmp_path: Path) -> None:
    record = record_of(tmp_path, "max", 1)
    scheduler = plugins.find("scheduler", name).build(SweepConfig(), record)
    assert {decide(scheduler, record, 0, epoch, 0.5) for epoch in range(1, 27)} == {"CONTINUE"}


@pytest.mark.parametrize("name", ["asha", "none"])
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("seed", range(3))
def test_what_was_decided_is_rebuilt_from_the_record(
    name: str, mode: Mode, seed: int, tmp_path: Path
) -> None:
    """Whatever came behind it, and in another process too: a resume asks for the last epoch of a trial."""
    config = SweepConfig.from_settings(max_epochs=16, grace_epochs=1, reduction_factor=2)
    module = plugins.find("scheduler", name)
    record = record_of(tmp_path, mode, 20)
    scheduler = module.build(config, record)
    generator = random.Random(f"{name} {mode} {seed}")
    reached = dict.fromkeys(range(20), 0)
    decided: dict[tuple[int, int], bool] = {}
    while reached:
        number = generator.choice(list(reached)[:6])
        epoch = reached[number] = reached[number] + 1
        is_finite = generator.random() > 0.02
        score = round(generator.gauss(0, 1), 1) if is_finite else math.nan
        decision = decide(scheduler, record, number, epoch, score)
        decided[number, epoch] = decision == TrialScheduler.STOP
        assert module.ends_at(config, record, number, epoch) is decided[number, epoch]
        if decided[number, epoch] or not is_finite or epoch == config.max_epochs:
            del reached[number]
    assert any(decided.values()) is (name != "none")
    for seen in (record, Record.read(tmp_path)):
        rebuilt = {key: module.ends_at(config, seen, *key) for key in decided}
        assert rebuilt == decided


@pytest.mark.parametrize("module", [halving.Scheduler, hyperband.Scheduler])
def test_what_a_scheduler_that_pauses_decided_is_rebuilt_from_the_record(module: Any, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=17)
    record = new_record(tmp_path, config)
    reached = Play(config, module.build(config, record), record, seed="0").run()
    for seen in (Record.read(tmp_path), Record.reopen(tmp_path)):
        for number, last in reached.items():
            assert module.ends_at(config, seen, number, last) is (last < 27)
            for epoch in range(1, last):
                assert not module.ends_at(config, seen, number, epoch)
                assert not module.waits_at(config, seen, number, epoch)


SEVERAL = ("m:max", f"{SIZE}:min")


@pytest.mark.parametrize("module", [asha.Scheduler, halving.Scheduler])
def test_by_several_objectives_those_continue_that_are_first_by_front_and_epsilon_net(
    module: Any, tmp_path: Path
) -> None:
    config = SweepConfig.from_settings(num_trials=30, max_epochs=9, metric=list(SEVERAL))
    record = new_record(tmp_path, config, objectives=SEVERAL)
    reached = Play(config, module.build(config, record), record, seed="0").run()
    there = list(record.losses_at(3).items())
    went_on = {number for number, epoch in reached.items() if epoch > 3}
    assert set(reached.values()) == {3, 9}
    if module is halving.Scheduler:
        assert len(went_on) == 10
        first, *_ = best_first(np.array([losses for _, losses in there]))
        assert sum(there[row][0] in went_on for row in first) >= 0.7 * min(10, len(first))
        return
    for place, (number, _) in enumerate(there[1:], start=1):
        fronts = best_first(np.array([losses for _, losses in there[: place + 1]]))
        order = [row for front in fronts for row in front]
        before = [order.index(row) for row in range(place)]
        assert (number in went_on) == (order.index(place) <= np.quantile(before, 1 / 3))


@pytest.mark.parametrize("module", [asha.Scheduler, halving.Scheduler])
def test_what_was_decided_by_several_objectives_is_rebuilt_from_the_record(
    module: Any, tmp_path: Path
) -> None:
    config = SweepConfig.from_settings(num_trials=24, metric=list(SEVERAL))
    record = new_record(tmp_path / "whole", config, objectives=SEVERAL)
    whole = Play(config, module.build(config, record), record, seed="1", slots=1).run()
    for seen in (record, Record.read(tmp_path / "whole")):
        assert all(module.ends_at(config, seen, n, epoch) for n, epoch in whole.items() if epoch < 27)
    begun = new_record(tmp_path / "killed", config, objectives=SEVERAL)
    Play(config, module.build(config, begun), begun, seed="1", slots=1).run(steps=60)
    again = resumed(module, config, Record.reopen(tmp_path / "killed"), seed="1", slots=1)
    assert again.run() == whole


@pytest.mark.parametrize("name", ["hyperband", "bohb"])
def test_those_that_rank_by_one_metric_say_that_they_take_no_more(name: str) -> None:
    assert not plugins.find("scheduler", name).TAKES_OBJECTIVES


@pytest.mark.parametrize("name", list(plugins.choices("scheduler")))
@pytest.mark.parametrize("planned", [[1], [24], [24, 40]])
def test_cohorts_hold_every_trial_once_and_fewer_from_rung_to_rung(name: str, planned: list[int]) -> None:
    there = plugins.find("scheduler", name).cohorts(
        SweepConfig.from_settings(num_trials=24, max_epochs=27), planned
    )
    at = [nth for each in there for nth in range(each.first, each.first + each.size)]
    assert at == list(range(planned[-1]))
    for each in there:
        assert len(each.reach) == len(each.ends)
        assert sum(each.spans) == each.ends[-1] == 27
        assert list(each.reach) == sorted(each.reach, reverse=True)


def test_a_sweep_without_trials_takes_no_epochs() -> None:
    assert halving.Scheduler.expected_epochs(SweepConfig.from_settings(num_trials=None)) == 0
