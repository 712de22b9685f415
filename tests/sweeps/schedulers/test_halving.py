"""Halving with waiting, played without Ray's processes: promotions, ends, kills, failures, more trials."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.tune.experiment import Trial

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.pareto import best_first
from sweeps.record.record import Record
from sweeps.schedulers import halving
from sweeps.schedulers.halving import Scheduler as Halving
from tests.conftest import propose
from tests.sweeps.schedulers.play import SIZE, FakeTrial, Mode, Play, arrive, decisions, new_record, resumed


def play(folder: Path, config: SweepConfig, mode: Mode = "max", **how: Any) -> Play:
    record = new_record(folder, config, mode)
    return Play(config, Halving.build(config, record), record, seed="0", **how)


@pytest.mark.parametrize("trials", [1, 2, 3, 5, 9, 10, 24, 40, 100])
@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_plan_knows_how_many_epochs_it_takes(trials: int, slots: int, mode: Mode, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=trials)
    played = play(tmp_path, config, mode, slots=slots)
    reached = played.run()
    assert set(reached.values()) <= {3, 9, 27}
    assert max(reached.values()) == 27
    assert len(reached) == trials
    assert sum(reached.values()) == Halving.expected_epochs(config)
    assert played.max_running == min(slots, trials)
    assert played.record is not None
    assert not played.record.live


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_it_decides_what_the_record_says(seed: int, mode: Mode, tmp_path: Path) -> None:
    """Who was promoted is promoted in every later process, and the epochs are those of the plan."""
    config = SweepConfig.from_settings(num_trials=24)
    record = new_record(tmp_path, config, mode)
    kills = random.Random(seed)
    promoted: dict[int, set[int]] = {3: set(), 9: set()}
    while True:
        resumed(Halving, config, record, f"{seed}{len(record.trials)}").run(kills.randint(1, 25))
        for epoch, before in promoted.items():
            made = Halving.for_record(config, record)
            now = {n for n in record.scores_at(epoch) if made.decide(n, epoch) == "CONTINUE"}
            assert before <= now
            promoted[epoch] = now
        if record.trials and not record.live and len(record.trials) == 24:
            break
        record = Record.read(tmp_path)
    assert sum(max(row.epochs) for row in record.trials) == Halving.expected_epochs(config)


@pytest.mark.parametrize("fails", [{0: 0}, {0: 2, 4: 3, 8: 5}, dict.fromkeys(range(19), 1)])
def test_nobody_waits_for_a_trial_that_failed(fails: dict[int, int], tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=20)
    played = play(tmp_path, config, fails=fails)
    reached = played.run()
    assert played.record is not None
    assert not played.record.live
    assert max(reached.values()) == 27
    for number, epoch in reached.items():
        assert epoch in (3, 9, 27) or epoch == fails[number]


def test_the_next_best_takes_the_place_of_a_last_one_that_failed(tmp_path: Path) -> None:
    """All that go beyond epoch 3 fail there, but for two that waited."""
    config = SweepConfig.from_settings(num_trials=9)
    whole = play(tmp_path / "whole", config).run()
    further = [number for number, epoch in whole.items() if epoch > 3]
    reached = play(tmp_path / "again", config, fails=dict.fromkeys(further, 4)).run()
    assert max(reached.values()) == 27


def test_those_that_wait_take_the_places_of_trials_that_failed(tmp_path: Path) -> None:
    """A third fails before the first rung; as many continue as the plan says."""
    config = SweepConfig.from_settings(num_trials=24)
    reached = play(tmp_path, config, fails=dict.fromkeys(range(0, 24, 3), 2)).run()
    assert sum(epoch >= 9 for epoch in reached.values()) == 8
    assert sum(epoch == 27 for epoch in reached.values()) == 2


def test_of_more_trials_none_continues_because_the_better_ones_were_stopped(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=11)
    record = new_record(tmp_path, config)
    arrive(config, record, 3, *(0.9, 0.8, 0.7), *(0.6 - number / 100 for number in range(8)))
    decided = decisions(config, record, 3)
    assert decided[:3] == ["CONTINUE"] * 3
    for number in range(3):
        record.report(number, 9, 0.5, {}, 1.0)
    for number, decision in enumerate(decisions(config, record, 3)):
        if decision == "STOP":
            record.end(number, "pruned")
    record.note("planned", [11, 20])
    more = SweepConfig.from_settings(num_trials=20)
    assert arrive(more, record, 3, 0.1) == ["PAUSE"], "the 12th, and the worst of all"
    assert arrive(more, record, 3, 0.85) == ["CONTINUE"], "it takes the place that stayed open"


def test_more_trials_judge_no_trial_anew(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=12)
    before = play(tmp_path, config).run()
    record, more = Record.read(tmp_path), SweepConfig.from_settings(num_trials=30)
    record.note("planned", [12, 30])
    ends = [FakeTrial(number, Trial.TERMINATED, epoch) for number, epoch in before.items()]
    after = Play(more, Halving.build(more, record), record, seed="2", trials=ends).run()
    assert {number: after[number] for number in before} == before
    assert len(after) == 30
    assert not record.live
    assert sum(after.values()) <= Halving.expected_epochs(more)


def test_a_space_without_more_points_ends_with_the_best_of_those_that_wait(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=17)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.1, 0.2) == ["PAUSE", "PAUSE"]
    record.plan_trials(len(record.searched))
    assert decisions(config, record, 3) == ["PAUSE", "CONTINUE"]  # the other one is the reserve
    record.report(1, 9, 0.5, {}, 1.0)
    assert decisions(config, record, 3) == ["STOP", "CONTINUE"]


def test_it_says_how_many_trials_come_how_far() -> None:
    said = Halving.describe(SweepConfig.from_settings(num_trials=24))
    assert said == (
        "halving: 24 trials to epoch 3, of them the best 8 to epoch 9, 2 to epoch 27, chosen as they "
        "arrive; at most 10 wait at a time, each with its checkpoint on disk"
    )
    assert (
        Halving.describe(SweepConfig.from_settings(num_trials=1))
        == "halving: a single trial, which trains to epoch 27"
    )
    assert "nothing is pruned" in Halving.describe(SweepConfig.from_settings(max_epochs=3))


def test_of_every_three_that_come_the_best_one_that_waits_goes_on(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=30)
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
    config = SweepConfig.from_settings(num_trials=90, metric=list(objectives))
    record = new_record(tmp_path, config, objectives=objectives, constraints=constraints)
    generator, came = random.Random(0), dict[int, Losses]()
    promoted, gone = set[int](), set[int]()
    for _ in range(60):
        score, size = (round(generator.random(), 1) for _ in range(2))
        losses = record.objectives.losses(score, {SIZE: size})
        number = propose(record, {}).number
        decision = Halving.for_record(config, record).decide(number, 3, losses)
        record.report(number, 3, score, {SIZE: size}, 1.0)
        came[number] = losses
        order = [row for front in best_first(np.array(list(came.values()))) for row in front]
        if len(promoted) < (due := len(came) // 3):
            waits = [(n, other) for n, other in enumerate(order) if other not in promoted | gone]
            promoted |= {other for place, other in waits[: due - len(promoted)] if place < due}
        is_next = [other for other in order if other not in promoted | gone][: halving.MOST_WAITING]
        expected = "CONTINUE" if number in promoted else "PAUSE" if number in is_next else "STOP"
        assert decision == expected
        if decision != "CONTINUE" and generator.random() < stopped:
            record.end(number, "stopped")
            gone.add(number)
    assert len(promoted) > 10
    again = decisions(config, Record.read(tmp_path), 3)
    assert {other for other, decision in enumerate(again) if decision == "CONTINUE"} == promoted


def test_a_trial_that_was_stopped_takes_no_turn_because_it_misses_a_constraint(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=100)
    record = new_record(tmp_path, config, constraints=[f"{SIZE}<=0.5"])

    def comes(size: float) -> tuple[int, str]:
        number = propose(record, {}).number
        losses = record.objectives.losses(0.5, {SIZE: size})
        decision = Halving.for_record(config, record).decide(number, 3, losses)
        record.report(number, 3, 0.5, {SIZE: size}, 1.0)
        return number, decision

    stopped = 0
    while stopped < 3 * halving.MOST_WAITING:
        number, decision = comes(0.6 + stopped / 100)
        if decision != "CONTINUE":
            record.end(number, "pruned")
            assert record.trials[number].status == "infeasible"
            stopped += 1
    assert comes(0.9) == (number + 1, "PAUSE"), "those that are better have ended"


def test_a_promotion_stays_with_a_trial_that_runs_out_of_memory_behind_it(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=30)
    record = new_record(tmp_path, config)
    arrive(config, record, 3, 0.5, 0.9, 0.1, 0.8, 0.7)
    before = decisions(config, record, 3)
    assert before.count("CONTINUE") == 1
    record.end(before.index("CONTINUE"), "infeasible", "out of memory")
    assert decisions(config, Record.read(tmp_path), 3) == before, "as in the sweep that was killed"


def test_a_promotion_stays_with_a_trial_that_the_user_stops_behind_it(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=30)
    record = new_record(tmp_path, config)
    arrive(config, record, 3, 0.5, 0.9, 0.1, 0.8, 0.7)
    before = decisions(config, record, 3)
    stopped = before.index("CONTINUE")
    record.end(stopped, "stopped")
    arrive(config, record, 3, 0.2)
    assert decisions(config, record, 3).count("CONTINUE") == 2
    assert decisions(config, Record.read(tmp_path), 3) == decisions(config, record, 3)


def test_the_last_one_that_trains_does_not_pause_for_those_that_waited_in_case_it_fails(
    tmp_path: Path,
) -> None:
    config = SweepConfig.from_settings(num_trials=3)
    record = new_record(tmp_path, config)
    arrive(config, record, 3, 0.9, 0.5, 0.1)
    assert decisions(config, record, 3)[:2] == ["CONTINUE", "PAUSE"]
    for epoch in range(4, 9):
        record.report(0, epoch, 0.9, {}, 1.0)
    losses = record.objectives.losses(0.9, {})
    assert Halving.for_record(config, record).decide(0, 9, losses) == "CONTINUE"


def test_none_goes_on_because_it_came_first(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=30)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.9) == ["PAUSE"]


def test_no_more_wait_than_may_have_their_turn(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=100)
    record = new_record(tmp_path, config)
    played = Play(config, Halving.build(config, record), record, seed="0")
    most = 0
    while played._start():
        played._report(played.random.choice(played._running()))
        most = max(most, sum(trial.status == Trial.PAUSED for trial in played.trials))
    assert halving.MOST_WAITING < most <= Halving.most_waiting(config, 1) + 1
