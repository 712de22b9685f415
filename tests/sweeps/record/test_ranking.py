"""The order of trials: which is the best, and which are the leaders."""

from __future__ import annotations

import math
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose
from tests.support.confirmed import confirmed
from tests.support.weighed import FRONT, begin, new, report, weighed
from tests.sweeps.record.written import new_record, scored


def test_the_search_hears_of_no_rerun(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    assert list(record.scores_at(1)) == [0, 1, 2]
    assert record.leaders(9) == [1, 2, 0]
    assert [trial.number for trial in record.searched] == [0, 1, 2]


@pytest.mark.parametrize(
    ("mode", "scores", "number", "epoch"),
    [
        ("max", [[0.1, 0.2], [0.9, 0.3], [0.5]], 1, 1),  # by the best epoch, not the last
        ("min", [[0.3, 0.2], [0.9, 0.1], [0.5]], 1, 2),
        ("max", [[0.1], [0.7], [0.7]], 1, 1),  # the earliest trial wins ties
        ("min", [[0.1], [0.1], [0.7]], 0, 1),
        ("max", [[0.1, 0.7, 0.7]], 0, 2),  # and the earliest epoch
        ("min", [[0.7, 0.1, 0.1]], 0, 2),
        ("max", [[-5.0], [-3.0]], 1, 1),
        ("max", [[0.0]], 0, 1),
        ("max", [[math.nan, 0.1], [math.inf]], 0, 2),
        ("min", [[math.nan, 0.1], [-math.inf]], 0, 2),
    ],
)
@pytest.mark.parametrize("status", ["finished", "pruned"])
def test_the_best_trial_is_that_with_the_best_finite_epoch(
    mode: str, scores: list[list[float]], number: int, epoch: int, status: Status, tmp_path: Path
) -> None:
    record = scored(tmp_path, mode, scores, status)
    for seen in (record, Record.read(tmp_path)):
        best = seen.best()
        assert best is not None
        assert (best.number, best.best_epoch(record.objective)) == (number, epoch)


def test_trials_may_end_in_any_order_and_the_earliest_still_wins_ties(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=3)
    for number in (2, 0, 1):
        record.report(number, 1, 0.5, {}, 1.0)
        record.end(number, "finished")
    best, again = record.best(), Record.read(tmp_path).best()
    assert best is not None
    assert again is not None
    assert best.number == again.number == 0


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_trial_that_went_wrong_is_never_the_best(status: Status, tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.9]], status)
    assert record.best() is None
    propose(record, {"lr": 1.0})
    record.report(1, 1, 0.1, {}, 1.0)
    for seen in (record, Record.read(tmp_path)):
        best = seen.best()
        assert best is not None
        assert best.number == 1, "while it trains, too"
    record.end(1, status)
    assert record.best() is None


def test_the_best_is_that_of_all_trials_and_the_weights_of_one_that_ended_are_kept(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.5], [0.9], [0.7]])
    propose(record, {"lr": 1.0})
    record.report(3, 1, 0.95, {}, 1.0)
    for seen in (record, Record.read(tmp_path)):
        assert (seen.front(), seen.leaders(2)) == ([3], [3, 1])
        assert seen.ended_leaders(2) == [1, 2], "trial 3 may still fail"
    record.end(3, "diverged", "score was nan in epoch 2")
    for seen in (record, Record.read(tmp_path)):
        assert (seen.front(), seen.leaders(2)) == ([1], [1, 2])


def test_a_trial_that_trains_joins_the_front_unless_it_misses_a_constraint(tmp_path: Path) -> None:
    record = new(tmp_path, 3)
    for number, values in enumerate([(0.8, 2.0), (0.9, 3.0), (0.95, 9.0)]):
        report(record, number, 1, values)
    record.end(0, "finished")
    assert set(record.front()) == {0, 1, 2}
    record.note("constraints", ["size_m<=5"])
    assert set(Record.read(tmp_path).front()) == {0, 1}


def test_no_trial_is_confirmed_before_a_better_one_that_trains(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.5], [0.9]])
    record.note("confirm", {"top": 1, "seeds": 1})
    ((number, seed),) = record.reruns_to_come()
    rerun = record.begin(record.trials[1].point, record.trials[1].optuna, seed, confirms=number)
    record.report(rerun.number, 1, 0.8, {}, 1.0)
    record.end(rerun.number, "finished")
    assert [trial.mean for trial in record.confirmed()] == [0.8]
    propose(record, {"lr": 1.0})
    record.report(3, 1, 0.95, {}, 1.0)
    assert (record.front(), record.confirmed()) == ([3], [])


def test_a_trial_that_ended_without_an_epoch_is_no_best(tmp_path: Path) -> None:
    assert scored(tmp_path, "max", [[]], "pruned").best() is None


def test_leaders_are_the_best_that_ended_well_the_best_first(tmp_path: Path) -> None:
    record = scored(tmp_path, "min", [[0.3], [0.1], [0.2], [0.1], [math.nan]])
    propose(record, {"lr": 1.0})
    record.report(5, 1, 0.0, {}, 1.0)  # still trains
    for seen in (record, Record.read(tmp_path)):
        assert seen.ended_leaders(1) == [1]
        assert seen.ended_leaders(3) == [1, 3, 2]  # the earlier one first where they tie
        assert seen.ended_leaders(9) == [1, 3, 2, 0]


def test_a_trial_that_went_wrong_leads_nobody(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=3)
    ends: list[Status] = ["failed", "pruned", "diverged"]
    for number, status in enumerate(ends):
        record.report(number, 1, 1.0 - number / 10, {}, 1.0)
        record.end(number, status)
    assert record.leaders(3) == Record.read(tmp_path).leaders(3) == [1]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("score", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
def test_a_trial_would_lead_exactly_when_it_leads_once_it_has_ended(
    mode: str, count: int, score: float, tmp_path: Path
) -> None:
    record = new_record(tmp_path, mode, trials=4)
    for number, other in ((0, 0.1), (3, 0.2), (2, 0.3)):  # one that ties is earlier or later
        record.report(number, 1, other, {}, 1.0)
        record.end(number, "finished")
    record.report(1, 1, score, {}, 1.0)
    expected = 1 in record.ended_leaders(count, if_ended=1)
    record.end(1, "pruned")
    assert (1 in record.leaders(count)) is expected


def test_a_trial_without_a_finite_score_would_never_lead(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=2)
    assert 0 not in record.ended_leaders(1, if_ended=0)
    record.report(0, 1, math.nan, {}, 1.0)
    assert 0 not in record.ended_leaders(1, if_ended=0)
    record.report(1, 1, -1e9, {}, 1.0)
    assert 1 in record.ended_leaders(1, if_ended=1)


def test_with_several_objectives_the_best_are_the_front_and_its_knee_is_first(tmp_path: Path) -> None:
    record = weighed(tmp_path, [(0.5, 3.0), *FRONT, (0.84, 2.5)])
    for seen in (record, Record.read(tmp_path)):
        assert seen.front() == [2, 3, 1]
        assert seen.best() is seen.trials[2]
        assert seen.leaders(1) == [2, 3, 1], "the whole front has its weights kept"
        assert seen.leaders(4) == [2, 3, 1, 4]
        assert seen.trials[1].values(seen.objectives) == (0.90, 5.0)


def test_a_trial_would_lead_where_no_trial_of_the_front_is_better_than_it(tmp_path: Path) -> None:
    record = weighed(tmp_path, FRONT)
    for number, (values, leads) in enumerate(
        [((0.95, 9.0), True), ((0.86, 1.9), True), ((0.84, 2.0), False), ((0.3, 0.5), True)], start=len(FRONT)
    ):
        begin(record, number)
        report(record, number, 1, values)
        record.note_trial(number, checkpoint_bytes=10)
        assert (number in record.ended_leaders(1, if_ended=number)) is leads
        assert (number in record.ended_leaders(math.inf, 1, number)) is leads
    record.end(4, "finished")
    assert record.front()[0] == 4
    assert 1 not in record.front(), "trial 4 is better in both"


def test_the_checkpoints_of_a_front_are_kept_whatever_their_size(tmp_path: Path) -> None:
    record = new(tmp_path, 4)
    for number, values in enumerate([*FRONT, (0.5, 4.0)]):
        report(record, number, 1, values)
        record.note_trial(number, checkpoint_bytes=10)
        record.end(number, "finished")
    assert record.ended_leaders(math.inf, 1) == record.front() == [1, 2, 0]
    assert record.ended_leaders(math.inf, 40) == [1, 2, 0, 3]


def test_scores_are_given_in_the_order_of_their_reports(tmp_path: Path) -> None:
    record = new(tmp_path, 4)
    for number in (2, 0, 3, 1):
        report(record, number, 1, (0.1 * number, 9.0))
    assert list(record.losses_at(1)) == list(record.scores_at(1)) == [2, 0, 3, 1]


def test_trials_without_a_finite_value_of_each_objective_are_not_ranked(tmp_path: Path) -> None:
    record = new(tmp_path, 2)
    report(record, 0, 1, (0.9, math.nan))
    report(record, 1, 1, (0.1, 9.0))
    assert list(record.scores_at(1)) == list(record.losses_at(1)) == [1]


def test_a_trial_whose_best_epoch_lacks_a_finite_value_neither_leads_nor_would_lead(tmp_path: Path) -> None:
    record = new(tmp_path, 4)
    for number, values in enumerate([(0.9, math.nan), (0.1, 9.0), (0.99, math.inf), (0.95, math.nan)]):
        report(record, number, 1, values)
        assert (number in record.ended_leaders(4, if_ended=number)) is (number == 1)
        if number != 3:  # it still trains
            record.end(number, "stopped")
    assert record.leaders(9) == record.front() == [1]


def test_optuna_has_a_direction_and_a_value_for_each_objective(tmp_path: Path) -> None:
    weighed(tmp_path, FRONT)
    study = optuna.load_study(
        study_name=None, storage=JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    )
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert study.metric_names == ["acc", "size_m"]
    assert {trial.number: tuple(trial.values) for trial in study.best_trials} == dict(enumerate(FRONT))


@pytest.mark.parametrize(
    ("epochs", "compared_at"),
    [
        ([0, 0], 0),  # no score
        ([5], 5),
        ([9] * 10 + [3] * 20, 3),  # 20 trials are needed
        ([9] * 20 + [3] * 10, 9),
        ([9] * 8 + [3] * 5 + [1] * 4, 3),  # of few, two thirds
        ([27] * 20 + [9] * 40 + [3] * 180, 9),  # of many, a fifth
    ],
)
def test_trials_are_compared_at_the_last_epoch_that_enough_have_reached(
    epochs: list[int], compared_at: int, tmp_path: Path
) -> None:
    record = new_record(tmp_path)
    with record.together():
        for number, last in enumerate(epochs):
            propose(record, {})
            for epoch in range(1, last + 1):
                record.report(number, epoch, 0.5, {}, 1.0)
        for number in range(len(epochs), len(epochs) + 5):
            propose(record, {})
            record.report(number, 1, 0.5, {}, 1.0)
            record.end(number, "diverged")
    assert record.compared_at() == compared_at


def test_a_hyperparameter_that_is_fixed_for_some_trials_differs_between_trials(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    propose(record, {"lr": 0.1, "width": 8}, fixed={"activation": "relu"})
    propose(record, {"width": 16}, fixed={"lr": 0.03, "activation": "relu"})
    assert [record.varied(trial) for trial in record.trials] == [
        {"lr": 0.1, "width": 8},
        {"lr": 0.03, "width": 16},
    ]
