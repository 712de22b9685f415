"""Who goes on to the next rung, and who waits for it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from ray.tune.experiment import Trial

from sweeps.common.objective import Losses
from sweeps.common.pareto import best_first
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers import halving
from sweeps.search.promotions import MOST_WAITING, Promotions, most_waiting
from tests.conftest import propose
from tests.sweeps.schedulers.play import SIZE, Play, arrive, decisions, new_record


def test_of_every_three_that_come_the_best_one_that_waits_goes_on(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=30)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.5, 0.9, 0.1) == ["PAUSE", "PAUSE", "PAUSE"]
    assert decisions(config, record, 3) == ["PAUSE", "CONTINUE", "PAUSE"]
    assert arrive(config, record, 3, 0.8, 0.7, 0.6) == ["PAUSE", "PAUSE", "PAUSE"]
    assert decisions(config, record, 3)[3:] == ["CONTINUE", "PAUSE", "PAUSE"]
    assert arrive(config, record, 3, 0.2, 0.3, 0.95) == ["PAUSE", "PAUSE", "CONTINUE"]
    assert decisions(config, Record.read(tmp_path), 3) == decisions(config, record, 3)


@pytest.mark.parametrize(("constraints", "stopped"), [([], 0.0), ([f"{SIZE}<=0.6"], 0.0), ([], 0.5)])
def test_by_several_objectives_each_promotion_follows_from_the_order_of_all_that_came_by_then(
    constraints: list[str], stopped: float, tmp_path: Path
) -> None:
    objectives = ("m:max", f"{SIZE}:min")
    config = SweepConfig.of(num_trials=90, metric=list(objectives))
    record = new_record(tmp_path, config, objectives=objectives, constraints=constraints)
    generator, came = random.Random(0), dict[int, Losses]()
    promoted, gone = set[int](), set[int]()
    for _ in range(60):
        score, size = (round(generator.random(), 1) for _ in range(2))
        losses = record.objectives.losses(score, {SIZE: size})
        number = propose(record, {}).number
        decision = Promotions.of(config, record).decision(number, 3, losses)
        record.report(number, 3, score, {SIZE: size}, 1.0)
        came[number] = losses
        order = [row for front in best_first(np.array(list(came.values()))) for row in front]
        if len(promoted) < (due := len(came) // 3):
            waits = [(n, other) for n, other in enumerate(order) if other not in promoted | gone]
            promoted |= {other for place, other in waits[: due - len(promoted)] if place < due}
        is_next = [other for other in order if other not in promoted | gone][:MOST_WAITING]
        expected = "CONTINUE" if number in promoted else "PAUSE" if number in is_next else "STOP"
        assert decision == expected
        if decision != "CONTINUE" and generator.random() < stopped:
            record.end(number, "stopped")
            gone.add(number)
    assert len(promoted) > 10
    if not gone:
        again = decisions(config, Record.read(tmp_path), 3)
        assert {other for other, decision in enumerate(again) if decision == "CONTINUE"} == promoted


def test_a_trial_that_was_stopped_takes_no_turn_because_it_misses_a_constraint(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=100)
    record = new_record(tmp_path, config, constraints=[f"{SIZE}<=0.5"])

    def comes(size: float) -> tuple[int, str]:
        number = propose(record, {}).number
        losses = record.objectives.losses(0.5, {SIZE: size})
        decision = Promotions.of(config, record).decision(number, 3, losses)
        record.report(number, 3, 0.5, {SIZE: size}, 1.0)
        return number, decision

    stopped = 0
    while stopped < 3 * MOST_WAITING:
        number, decision = comes(0.6 + stopped / 100)
        if decision != "CONTINUE":
            record.end(number, "pruned")
            assert record.trials[number].status == "infeasible"
            stopped += 1
    assert comes(0.9) == (number + 1, "PAUSE"), "those that are better have ended"


def test_a_promotion_stays_with_a_trial_that_runs_out_of_memory_behind_it(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=30)
    record = new_record(tmp_path, config)
    arrive(config, record, 3, 0.5, 0.9, 0.1, 0.8, 0.7)
    before = decisions(config, record, 3)
    assert before.count("CONTINUE") == 1
    record.end(before.index("CONTINUE"), "infeasible", "out of memory")
    assert decisions(config, Record.read(tmp_path), 3) == before, "as in the sweep that was killed"


def test_none_goes_on_because_it_came_first(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=30)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.9) == ["PAUSE"]


def test_no_more_wait_than_may_have_their_turn(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=100)
    record = new_record(tmp_path, config)
    played = Play(config, halving.build(config, record), record, seed="0")
    most = 0
    while played._start():
        played._report(played.random.choice(played._running()))
        most = max(most, sum(trial.status == Trial.PAUSED for trial in played.trials))
    assert MOST_WAITING < most <= most_waiting(config) + 1
