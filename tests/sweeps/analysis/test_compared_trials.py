"""At which epoch trials are compared, and what decides their scores there."""

from __future__ import annotations

import dataclasses
import inspect
import math
import weakref
from pathlib import Path

import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis.compared_trials import compared_trials, newest_distributions, tried
from sweeps.analysis.sweep import Sweep, load
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.kinds import add, begun, rerun
from tests.support.searched import by_hand

LR = FloatDistribution(0.001, 1.0, log=True)


def test_scores_of_different_epochs_are_never_compared(sweeps: dict[str, Sweep]) -> None:
    found = compared_trials(sweeps["pruned"].record)
    assert (found.epoch, len(found.scores)) == (1, 30), "20 are needed, and 10 came to epoch 3"
    record = sweeps["pruned"].record
    assert found.scores == {t.number: t.epochs[1].score for t in record.trials}
    assert found.words == "scores at epoch 1, which 30 of 30 trials reached"
    said = analysis_figures.slices(sweeps["pruned"]).layout.title.subtitle.text
    assert found.words in said


def test_of_a_record_that_grows_only_what_holds_now_is_kept(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    for number in range(5):
        propose(record, {"lr": 0.1 * (number + 1)}, {"lr": LR})
        record.report(number, 1, 0.1 * number, {}, 1.0)
        found = compared_trials(record)
        assert len(found.scores) == number + 1
        assert compared_trials(record) is found
    gone = weakref.ref(found)
    del found
    record.end(0, "finished")
    compared_trials(record)
    assert gone() is None


def test_of_few_trials_the_epoch_is_the_last_that_two_thirds_reached(sweeps: dict[str, Sweep]) -> None:
    found = compared_trials(sweeps["running"].record)
    assert (found.epoch, sorted(found.scores)) == (3, [0, 1, 2, 3, 4, 5])


def test_importance_finds_the_hyperparameter_that_decides(sweeps: dict[str, Sweep]) -> None:
    found = compared_trials(sweeps["pruned"].record)
    shares = found.importances
    assert next(iter(shares)) == "lr"
    assert math.isclose(sum(shares.values()), 1)


def test_importance_is_the_same_by_an_older_optuna(
    sweeps: dict[str, Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 4.7 it takes the share of the best trials by another name."""
    if "target_quantile" not in inspect.signature(PedAnovaImportanceEvaluator).parameters:
        pytest.skip("this Optuna is an older one")

    class Older(PedAnovaImportanceEvaluator):
        def __init__(self, *, baseline_quantile: float = 0.1, evaluate_on_local: bool = True) -> None:
            super().__init__(target_quantile=baseline_quantile, evaluate_on_local=evaluate_on_local)

    monkeypatch.setattr("optuna.importance.PedAnovaImportanceEvaluator", Older)
    found = compared_trials(sweeps["pruned"].record)
    assert dataclasses.replace(found).importances == found.importances != {}


def test_hyperparameters_of_several_trainables_are_told_apart(sweeps: dict[str, Sweep]) -> None:
    found = compared_trials(sweeps["several"].record)
    hyperparameters = [f"{model}.{name}" for model in ("cnn", "mlp") for name in ("lr", "momentum", "width")]
    assert sorted(found.tried.ranges) == sorted(["trainable", *hyperparameters])


def test_a_trial_that_broke_down_later_is_none_of_the_best(tmp_path: Path) -> None:
    """However good it was before that: ranges around it would ask for more of the same."""
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "max_epochs": 2})
    for place in range(12):
        number = propose(record, {"lr": 0.001 * 1.5**place}, {"lr": LR}).number
        record.report(number, 1, place, {"acc": place}, 0.1)
        record.end(number, "finished" if place < 9 else "failed" if place < 11 else "diverged", "broke")
    seen = compared_trials(load(tmp_path).record)
    assert [trial.number for trial in seen.best()] == [8, 7, 6]
    assert [trial.number for trial in seen.bad] == [9, 10, 11]


def test_reruns_of_a_trial_are_no_trials_of_their_own(tmp_path: Path) -> None:
    params = [{"lr": 0.01 * (n + 1)} for n in range(5)]
    record = by_hand(tmp_path, [n / 10 for n in range(5)], {"lr": LR}, params).record
    for _ in range(5):
        rerun(record, 0, 0.9)
    assert [row.number for row in compared_trials(record).order] == [4, 3, 2, 1, 0]


def test_a_low_score_is_the_best_where_that_is_meant(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "min", {"metric": "loss"})
    for number in range(10):
        propose(record, {"lr": 0.01 * (number + 1)}, {"lr": LR})
        record.report(number, 1, float(number), {"loss": float(number)}, 0.1)
        record.end(number, "finished")
    assert [row.number for row in compared_trials(record).best()] == [0, 1, 2]


def test_the_range_of_a_hyperparameter_holds_all_that_was_tried(tmp_path: Path) -> None:
    """On another scale, chosen by the user beyond it, and fixed for some trials meanwhile."""
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    first, second = FloatDistribution(1e-3, 1.0, log=True), FloatDistribution(0.0, 0.5)
    propose(record, {"lr": 0.1}, {"lr": first})
    propose(record, {"lr": 0.0}, {"lr": second})
    propose(record, {"lr": 3.0})
    propose(record, {"width": 8}, fixed={"lr": 2.0})
    found = tried(record.trials)
    assert found.ranges["lr"] == FloatDistribution(0.0, 3.0)
    assert [params["lr"] for params in found.params.values()] == [0.1, 0.0, 3.0, 2.0]
    assert newest_distributions(record.trials) == {"lr": second}


def test_a_whole_number_that_was_fixed_at_a_fraction_later_has_an_importance(tmp_path: Path) -> None:
    record, whole = begun(tmp_path), {"lr": LR, "size": IntDistribution(1, 8)}
    for number in range(24):
        params = {"lr": 0.01 * (number + 1), "size": 1 + number % 8}
        add(record, params, 1, ranges=whole, score=lambda _, score=number: score / 24)
    for number in range(4):
        add(record, {"lr": 0.5 + number / 10}, 1, ranges=whole, score=lambda _: 0.5, fixed={"size": 2.5})
    assert compared_trials(record).importances.keys() == {"lr", "size"}
