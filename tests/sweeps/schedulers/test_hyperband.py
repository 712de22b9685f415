"""Hyperband played without Ray's processes: against Ray's own, through kills, failures and odd sizes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import HyperBandForBOHB

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers import hyperband
from sweeps.search import brackets
from tests.conftest import propose

Mode = Literal["min", "max"]


@dataclass(eq=False)
class FakeTrial:
    """As much of Tune's Trial as a scheduler looks at."""

    number: int
    status: str = Trial.PENDING
    epoch: int = 0
    is_saving: bool = False

    @property
    def trial_id(self) -> str:
        return f"trial_{self.number:04d}"

    @property
    def config(self) -> dict[str, Any]:
        return {"number": self.number}


@dataclass
class Play:
    """Tune's loop without processes: who runs is asked of the scheduler, who reports is drawn."""

    config: SweepConfig
    scheduler: Any
    record: Record | None
    seed: str
    slots: int = 3
    fails: dict[int, int] = field(default_factory=dict)
    """Trial number to the epoch after which it fails."""
    trials: list[FakeTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.search_alg = self.searcher = self  # Ray's scheduler speaks to the searcher through these
        self.max_running = 0

    # What a scheduler may call.
    def on_pause(self, trial_id: str) -> None: ...

    def on_unpause(self, trial_id: str) -> None: ...

    def get_trials(self) -> list[FakeTrial]:
        return self.trials

    def get_live_trials(self) -> list[FakeTrial]:
        return [trial for trial in self.trials if trial.status != Trial.TERMINATED]

    def stop_trial(self, trial: FakeTrial) -> None:
        assert trial.status == Trial.PAUSED
        self._end(trial, "pruned")
        self.scheduler.on_trial_remove(self, trial)

    def run(self, steps: float = float("inf")) -> dict[int, int]:
        """Trial number to the last epoch that it trained, after all have ended or so many steps."""
        while steps > 0 and (self._start() or self._running()):
            steps -= 1
            self._report(self.random.choice(self._running()))
        return {trial.number: trial.epoch for trial in self.trials}

    def _running(self) -> list[FakeTrial]:
        return [trial for trial in self.trials if trial.status == Trial.RUNNING]

    def _start(self) -> bool:
        """Fill the slots, as Tune does: a new trial is there before the scheduler chooses."""
        while len(self._running()) < self.slots:
            if not any(trial.status == Trial.PENDING for trial in self.trials):
                self._add()
            if (chosen := self.scheduler.choose_trial_to_run(self)) is None:
                break
            assert chosen.status in (Trial.PENDING, Trial.PAUSED)
            chosen.status = Trial.RUNNING
        self.max_running = max(self.max_running, len(self._running()))
        return bool(self._running())

    def _add(self) -> None:
        number = len(self.trials)
        if number < (self.config.num_trials or 0):
            self.trials.append(FakeTrial(number))
            if self.record is not None and number == len(self.record.trials):
                propose(self.record, {})
            self.scheduler.on_trial_add(self, self.trials[-1])

    def _report(self, trial: FakeTrial) -> None:
        if trial.epoch == self.fails.get(trial.number):
            self._end(trial, "failed")
            self.scheduler.on_trial_error(self, trial)
            return
        trial.epoch += 1
        score = score_of(trial.number, trial.epoch)
        result = {"epoch": trial.epoch, "score": score, "training_iteration": trial.epoch}
        decision = self.scheduler.on_trial_result(self, trial, result)
        if self.record is not None:
            self.record.report(trial.number, trial.epoch, score, {}, 1.0)
        if trial.epoch == self.config.max_epochs:
            self._end(trial, "finished")
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == "STOP":
            self._end(trial, "pruned")
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == "PAUSE":
            trial.status = Trial.PAUSED
        else:
            assert decision == "CONTINUE"

    def _end(self, trial: FakeTrial, status: Any) -> None:
        trial.status = Trial.TERMINATED
        if self.record is not None:
            self.record.end(trial.number, status)


def score_of(number: int, epoch: int) -> float:
    """Never twice the same: Ray breaks ties by who came last, we by who came first."""
    return random.Random(f"{number} {epoch}").random()


def new_record(folder: Path, config: SweepConfig, mode: Mode = "max") -> Record:
    folder.mkdir(exist_ok=True)
    record = Record.create(folder, "s", mode, {"metric": "m", "fixed": {}})
    record.note("runs", [{"num_trials": config.num_trials}])
    return record


def play(folder: Path, config: SweepConfig, mode: Mode = "max", **how: Any) -> Play:
    record = new_record(folder, config, mode)
    return Play(config, hyperband.build(config, record), record, seed="0", **how)


@pytest.mark.parametrize(
    ("max_epochs", "factor", "slots", "mode"), [(27, 3, 2, "max"), (9, 3, 1, "min"), (8, 2, 5, "max")]
)
def test_it_trains_every_trial_as_far_as_rays_hyperband_for_bohb(
    max_epochs: int, factor: int, slots: int, mode: Mode, tmp_path: Path
) -> None:
    """In a first band: later Ray fills up brackets of which trials have ended."""
    rungs = {"max_epochs": max_epochs, "grace_epochs": 1, "reduction_factor": factor}
    config = SweepConfig.of(**rungs, num_trials=sum(n for n, _ in brackets.band(SweepConfig.of(**rungs))))
    rays = HyperBandForBOHB("epoch", "score", mode, max_t=max_epochs, reduction_factor=factor)
    expected = Play(config, rays, None, seed="1", slots=slots).run()
    ours = play(tmp_path, config, mode, slots=slots)
    assert ours.run() == expected
    assert ours.max_running == slots
    assert len(set(expected.values())) == len(brackets.rungs(config)) + 1


def test_the_brackets_of_a_band_have_the_sizes_of_the_paper() -> None:
    config = SweepConfig.of(max_epochs=81, grace_epochs=1, reduction_factor=3)
    assert [size for size, _ in brackets.band(config)] == [81, 34, 15, 8, 5]
    assert [judged for _, judged in brackets.band(config)] == [(1, 3, 9, 27), (3, 9, 27), (9, 27), (27,), ()]


def test_no_rung_is_lost_to_truncated_logarithms() -> None:
    """Ray loses one of 243 / 3 and of 1000 / 10."""
    for max_epochs, factor in ((243, 3), (1000, 10)):
        config = SweepConfig.of(max_epochs=max_epochs, grace_epochs=1, reduction_factor=factor)
        widest = brackets.band(config)[0][1]
        assert [factor**power for power in range(len(widest))] == list(widest)
        assert widest[-1] * factor == max_epochs


@pytest.mark.parametrize("trials", [1, 2, 5, 9, 10, 17, 18, 24, 40])
@pytest.mark.parametrize("slots", [1, 4])
def test_every_trial_ends_at_a_rung_and_the_plan_knows_how_many_epochs_that_takes(
    trials: int, slots: int, tmp_path: Path
) -> None:
    config = SweepConfig.of(num_trials=trials)
    reached = play(tmp_path, config, slots=slots).run()
    assert set(reached.values()) <= {3, 9, 27}
    assert sum(reached.values()) == hyperband.expected_epochs(config)
    assert len(reached) == trials


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_it_ends_each_trial_where_it_would_have_anyway(
    seed: int, mode: Mode, tmp_path: Path
) -> None:
    config = SweepConfig.of(num_trials=24)
    whole = play(tmp_path / "whole", config, mode).run()
    record = new_record(tmp_path / "killed", config, mode)
    kills = random.Random(seed)
    while True:
        resumed = Play(config, hyperband.build(config, record), record, seed=f"{seed}{len(record.trials)}")
        for row in record.trials:  # they begin anew and report their last epoch once more
            last = max(row.epochs, default=0)
            known = FakeTrial(row.number, Trial.TERMINATED, last)
            resumed.trials.append(known)
            if row.status == "unfinished":
                known.status, known.epoch = Trial.PENDING, max(0, last - 1)
        resumed.run(kills.randint(1, 25))
        if record.trials and not record.live and len(record.trials) == 24:
            break
        record = Record.read(tmp_path / "killed")
    assert {row.number: max(row.epochs) for row in record.trials} == whole
    assert Counter(row.status for row in record.trials)["finished"] == sum(e == 27 for e in whole.values())


def test_what_was_decided_is_rebuilt_from_the_record(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=17)
    reached = play(tmp_path, config).run()
    for record in (Record.read(tmp_path), Record.reopen(tmp_path)):
        for number, last in reached.items():
            assert hyperband.ends_at(config, record, number, last) is (last < 27)
            for epoch in range(1, last):
                assert not hyperband.ends_at(config, record, number, epoch)
                assert not hyperband.waits_at(config, record, number, epoch)


def test_a_trial_waits_for_all_of_its_bracket_and_for_no_other(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=17)
    record = new_record(tmp_path, config)
    for number in range(10):
        propose(record, {})
        if number < 8:
            record.report(number, 3, number / 10, {}, 1.0)
            assert hyperband.waits_at(config, record, number, 3)
    record.report(9, 3, 0.99, {}, 1.0)  # of the next bracket, whose first rung is 9
    assert hyperband.waits_at(config, record, 0, 3)
    assert not hyperband.waits_at(config, record, 9, 3)
    record.report(8, 3, 0.5, {}, 1.0)
    decisions = {number: brackets.decision(config, record, number, 3) for number in range(9)}
    assert decisions == dict.fromkeys(range(9), "STOP") | dict.fromkeys((6, 7, 5), "CONTINUE")


@pytest.mark.parametrize("fails", [{0: 0}, {0: 2, 4: 3, 8: 5}, dict.fromkeys(range(9), 1)])
def test_nobody_waits_for_a_trial_that_failed(fails: dict[int, int], tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=20)
    played = play(tmp_path, config, fails=fails)
    reached = played.run()
    assert not played.record.live if played.record else False
    for number, epoch in reached.items():
        # One that fails behind a rung where it was stopped has not come to it.
        assert epoch in (3, 9, 27) or epoch == fails[number]
    early = {number: after for number, after in fails.items() if after < 3}  # before any rung
    assert {number: reached[number] for number in early} == early


def test_more_trials_open_a_new_band_and_judge_no_bracket_anew(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=12)  # a bracket of 9, and 3 of the next one's 5
    before = play(tmp_path, config).run()
    record, more = Record.read(tmp_path), SweepConfig.of(num_trials=25)
    record.note("runs", [{"num_trials": 12}, {"num_trials": 25}])
    ends = {number: FakeTrial(number, Trial.TERMINATED, epoch) for number, epoch in before.items()}
    resumed = Play(more, hyperband.build(more, record), record, seed="2", trials=list(ends.values()))
    after = resumed.run()
    assert {number: after[number] for number in before} == before
    assert brackets.bracket_of(more, record.planned_trials, 12) == brackets.Bracket(12, 9, (3, 9))
    assert len(after) == 25
    assert not record.live


@pytest.mark.parametrize("runs", [[17], [17, 17], [9, 17]])
def test_a_space_without_more_points_closes_its_last_bracket(runs: list[int], tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=17)
    record = new_record(tmp_path, config)
    record.note("runs", [{"num_trials": planned} for planned in runs])
    for number in range(4):
        propose(record, {})
        record.report(number, 3, number / 10, {}, 1.0)
    assert hyperband.waits_at(config, record, 3, 3)
    record.propose_no_more()
    assert record.planned_trials == [4]
    assert [brackets.decision(config, record, number, 3) for number in range(4)] == [
        *("STOP", "STOP"),
        *("CONTINUE", "CONTINUE"),
    ]
    assert Record.read(tmp_path).planned_trials == [4]
