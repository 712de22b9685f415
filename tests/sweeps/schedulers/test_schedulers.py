"""The contract of every scheduler."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler

from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers import halving, hyperband
from tests.sweeps.schedulers.play import Mode, Play, decide, new_record, record_of


@pytest.mark.parametrize("name", plugins.choices("scheduler"))
def test_a_scheduler_is_built_from_config_and_record(name: str, tmp_path: Path) -> None:
    built = plugins.find("scheduler", name).build(SweepConfig(), record_of(tmp_path, "max", 0))
    assert isinstance(built, TrialScheduler)


@pytest.mark.parametrize("name", plugins.choices("scheduler"))
@pytest.mark.parametrize("max_epochs", [1, 27])
def test_a_scheduler_describes_itself_in_one_line_that_names_it_and_the_end(
    name: str, max_epochs: int
) -> None:
    config = SweepConfig.of(max_epochs=max_epochs, grace_epochs=1)
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
    config = SweepConfig.of(max_epochs=16, grace_epochs=1, reduction_factor=2)
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


@pytest.mark.parametrize("module", [halving, hyperband])
def test_what_a_scheduler_that_pauses_decided_is_rebuilt_from_the_record(module: Any, tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=17)
    record = new_record(tmp_path, config)
    reached = Play(config, module.build(config, record), record, seed="0").run()
    for seen in (Record.read(tmp_path), Record.reopen(tmp_path)):
        for number, last in reached.items():
            assert module.ends_at(config, seen, number, last) is (last < 27)
            for epoch in range(1, last):
                assert not module.ends_at(config, seen, number, epoch)
                assert not module.waits_at(config, seen, number, epoch)
