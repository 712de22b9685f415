"""The results that a model is made from, in the order in which they came."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ray import tune

from sweeps.common.objective import Mode
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import NO_EARLIER, Earlier, EpochRow, TrialRow
from sweeps.search.known_trials import KnownTrials, Result
from sweeps.searchers.random import Searcher
from sweeps.space.flat import check
from sweeps.space.point import Space
from tests.conftest import propose
from tests.sweeps.searchers.play import Params

CONFIG = SweepConfig.from_settings(grace_epochs=1, max_epochs=9)
SPACE: Space = check({"lr": tune.uniform(0.0, 9.0)}, Params, {}, Searcher.TAKES, "random")


def results_of(record: Record) -> list[Result]:
    return KnownTrials(CONFIG, SPACE, record).results()


def new_record(folder: Path, trials: int, mode: Mode = "max", earlier: Earlier = NO_EARLIER) -> Record:
    record = Record.create(folder, "s", mode, {"metric": "m"}, earlier)
    for number in range(trials):
        propose(record, {"lr": float(number)})
    return record


def report(record: Record, number: int, epoch: int, score: float) -> None:
    record.report(number, epoch, score, {}, 1.0)


def test_scores_come_in_the_order_of_the_reports_and_only_at_the_rungs(tmp_path: Path) -> None:
    record = new_record(tmp_path, 2)
    assert results_of(record) == []
    for number, epoch in ((1, 1), (0, 1), (0, 2), (0, 3), (1, 3)):
        report(record, number, epoch, number + epoch / 10)
    assert results_of(record) == [Result(1, 1, 1.1), Result(0, 1, 0.1), Result(0, 3, 0.3), Result(1, 3, 1.3)]


def test_a_larger_score_is_a_better_one_whatever_the_mode(tmp_path: Path) -> None:
    record = new_record(tmp_path, 1, mode="min")
    report(record, 0, 1, 0.25)
    assert results_of(record) == [Result(0, 1, -0.25)]


def test_a_trial_that_diverged_is_the_worst_at_the_first_rung(tmp_path: Path) -> None:
    record = new_record(tmp_path, 2)
    report(record, 0, 1, 0.5)
    report(record, 0, 2, math.nan)
    record.end(0, "diverged", "m was nan")
    record.end(1, "diverged", "m was nan")
    assert results_of(record) == [Result(1, 1, -math.inf), Result(0, 1, 0.5), Result(0, 1, -math.inf)]


def test_trials_of_earlier_sweeps_come_first_and_reruns_not_at_all(tmp_path: Path) -> None:
    known = TrialRow(number=-1, params={"lr": 9.0}, seed=0, start=0.0, status="finished")
    known.epochs = {1: EpochRow(0.8, {}, 0.0, 0.0), 2: EpochRow(0.9, {}, 0.0, 0.0)}
    record = new_record(tmp_path, 1, earlier=Earlier([known]))
    report(record, 0, 1, 0.5)
    record.end(0, "finished")
    again = record.begin(record.trials[0].point, record.trials[0].optuna, 7, confirms=0)
    report(record, again.number, 1, 0.6)
    propose(record, {"lr": 5.0})
    report(record, 2, 1, 0.4)
    assert results_of(record) == [Result(0, 1, 0.8), Result(1, 1, 0.5), Result(2, 1, 0.4)]
    trials = KnownTrials(CONFIG, SPACE, record).trials
    assert [trials[number].params["lr"] for number in (0, 1, 2)] == [9, 0, 5]


def test_the_model_is_fitted_at_the_highest_rung_that_enough_trials_reached(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {})
    for number in range(6):
        propose(record, {"lr": float(number)})
        for epoch in (3, 9, 27)[: 3 - number // 2]:  # 6 reach epoch 3, 4 reach 9, 2 reach 27
            record.report(number, epoch, math.nan if (number, epoch) == (0, 27) else 0.5, {}, 1.0)
    known = KnownTrials(SweepConfig.from_settings(max_epochs=27), SPACE, record)
    found = {enough: known.fidelity(enough) for enough in (1, 2, 4, 5, 6, 7)}
    assert found == {1: 27, 2: 9, 4: 9, 5: 3, 6: 3, 7: None}


def test_trials_outside_of_the_ranges_count_for_no_model(tmp_path: Path) -> None:
    """Also where a hyperparameter has been fixed since, or had one value before."""
    record, both = Record.create(tmp_path, "s", "max", {}), ({"lr": 1.0}, {"lr": 5.0})
    for params in both:
        propose(record, {**params, "width": 8}, fixed={"activation": "relu"})
        record.report(len(record.trials) - 1, 1, 0.5, {}, 1.0)
    every = {"lr": tune.uniform(0.0, 9.0), "width": tune.randint(1, 21)}

    def numbers(space: dict[str, Any], **ranges: Any) -> list[int]:
        fixed = {name: value for name, value in ranges.items() if name not in space}
        checked = check(space, Params, fixed, Searcher.TAKES, "random")
        known = KnownTrials(CONFIG.changed(ranges=ranges), checked, record)
        assert (known.fidelity(1) == 1) is (known.points != [None, None])
        assert [row is None for row in known.rows] == [point is None for point in known.points]
        return [number for number, point in enumerate(known.points) if point is not None]

    assert numbers(every) == [0, 1]
    assert numbers({**every, "lr": tune.uniform(0.0, 2.0)}) == [0]
    assert numbers({"width": tune.randint(1, 21)}, lr=5.0) == [1]
    assert numbers({**every, "width": tune.randint(1, 5)}) == []
    assert numbers({**every, "activation": tune.choice(["relu", "gelu"])}) == [0, 1]
    assert numbers({**every, "activation": tune.choice(["gelu", "tanh"])}) == []
    assert numbers(every, activation="gelu") == []
