"""What a record advises, on sweeps of a known function: what is there is found, what is not is not said."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeps.analysis import figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.advice import Advice, advise
from sweeps.analysis.compared_trials import compared_trials
from sweeps.analysis.new_ranges import Change
from sweeps.analysis.report import confidence
from sweeps.analysis.sweep import load
from sweeps.record.record import Record
from sweeps.record.sweep_info import FORMAT
from sweeps.record.trials import EpochRow, TrialRow
from sweeps.space.point import OptunaPoint
from tests.conftest import propose
from tests.support import kinds
from tests.support.searched import by_hand, peak, searched

LR = FloatDistribution(0.001, 1.0, log=True)


def advice_on(folder: Path, score: Any, **settings: Any) -> Advice:
    return advise(searched(folder, "s", score, **settings))


def change_of(advice: Advice, hyperparameter: str) -> Change | None:
    return next((each for each in advice.changes if each.hyperparameter == hyperparameter), None)


def why(advice: Advice, hyperparameter: str) -> str:
    found = change_of(advice, hyperparameter)
    return "" if found is None else found.why


@pytest.mark.parametrize(("best", "end"), [(3.0, "upper"), (1e-4, "lower")])
def test_a_best_at_an_end_widens_it_there(best: float, end: str, tmp_path: Path) -> None:
    assert f"5 of the 5 best lie at its {end} end" in why(
        advice_on(tmp_path, peak(best), num_trials=24), "lr"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_best_within_widens_nothing(seed: int, tmp_path: Path) -> None:
    assert "best lie" not in why(advice_on(tmp_path, peak(0.03), num_trials=30, seed=seed), "lr")


def test_a_choice_that_never_works_is_dropped(tmp_path: Path) -> None:
    words = {"act": CategoricalDistribution(["relu", "tanh", "none"])}
    acts = [("relu", "tanh", "none")[n % 3] for n in range(18)]
    scores = [math.nan if act == "none" else 0.5 + n / 100 for n, act in enumerate(acts)]
    advice = advise(by_hand(tmp_path, scores, words, [{"act": act} for act in acts]))
    assert change_of(advice, "act") == (
        "act",
        "one of relu, tanh, none",
        "one of relu, tanh",
        "never good: none",
    )


def test_each_of_several_trainables_has_importances_of_its_own(tmp_path: Path) -> None:
    sweep = load(kinds.write("several", tmp_path / "several"))
    figure = figures.importance(sweep)
    shares = dict(zip(figure.data[0].y, figure.data[0].x, strict=True))
    for name in ("cnn", "mlp"):
        assert math.fsum(
            share for hyperparameter, share in shares.items() if hyperparameter.startswith(name)
        ) == pytest.approx(100)
        own = compared_trials(sweep.record, name)
        assert shares[f"{name}.lr"] == pytest.approx(100 * own.importances[f"{name}.lr"])


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        (0, "No trial was started"),
        (1, "1 trial with a score at epoch 1: too few to judge ranges."),
        (5, "5 trials with a score at epoch 1: too few to judge ranges."),
    ],
)
def test_few_trials_say_that_they_are_few(trials: int, said: str, tmp_path: Path) -> None:
    params = [{"lr": 0.01 * (n + 1)} for n in range(trials)]
    advice = advise(by_hand(tmp_path, [n / 10 for n in range(trials)], {"lr": LR}, params))
    assert said in advice.basis[0]
    assert advice.changes == ()
    assert not any("--refine" in step.command for step in advice.steps), "which would change nothing"


def test_of_few_trials_more_are_asked_for_and_of_ties_none(tmp_path: Path) -> None:
    for trials, wanted in ((1, "--num-trials 8"), (6, "--num-trials 12")):
        folder = tmp_path / str(trials)
        record = kinds.begun(folder, outcome="finished", identity={})
        for number in range(trials):
            kinds.add(record, kinds.drawn(number), 1)
        (step,) = advise(load(folder)).steps
        assert step.text == "Add trials: to judge ranges, 8 with different scores are needed."
        assert step.command.endswith(f"--resume {folder} {wanted}")
    record = kinds.begun(tmp_path / "tied", outcome="finished")
    kinds.constant(record)
    advice = advise(load(tmp_path / "tied"))
    (step,) = advice.steps
    assert step.text.startswith("Use the weights of trial")
    assert "Use another --metric, or tune other hyperparameters." in advice.basis[0]


def test_no_resume_is_advised_of_a_sweep_that_this_version_does_not_continue(tmp_path: Path) -> None:
    record = kinds.begun(tmp_path, outcome="finished", identity={}, format=FORMAT - 1)
    for number in range(6):
        kinds.add(record, kinds.drawn(number), 1, "failed" if number == 5 else "finished")
    assert [step.command for step in advise(load(tmp_path)).steps if "--resume" in step.command] == []
    assert confidence.to_confirm(record) == ""


def test_where_all_diverged_the_commonest_reason_is_said(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, lambda params: math.nan, num_trials=5)
    assert advice.basis == (
        "No trial ended well: 5 of 5 failed, diverged or were infeasible. The most common reason is: "
        "val_acc is nan (5 times). Fix that before another sweep.",
    )
    (step,) = advice.steps
    assert step.text == "Repair what 5 of 5 trials ended with: val_acc is nan."
    assert step.command.endswith(f"results {tmp_path}/s --csv -")


def test_one_that_diverged_before_the_others_have_a_score_is_no_mistake_yet(tmp_path: Path) -> None:
    record = kinds.begun(tmp_path, outcome="interrupted", identity={})
    kinds.add(record, kinds.drawn(0), 1, "diverged", "acc is nan", score=lambda epoch: math.nan)
    propose(record, kinds.drawn(1), kinds.RANGES)
    assert not [step for step in advise(load(tmp_path)).steps if step.text.startswith("Repair")]


def test_the_largest_of_ordered_choices_is_said_in_words(tmp_path: Path) -> None:
    words, widths = {"width": CategoricalDistribution([4, 6, 8])}, [4, 6, 8] * 6
    advice = advise(by_hand(tmp_path, [w / 10 for w in widths], words, [{"width": w} for w in widths]))
    assert "the best have its largest: try a larger one" in why(advice, "width")


def test_several_trainables_are_judged_each_by_its_own_trials(tmp_path: Path) -> None:
    about = {"metric": "acc", "trainable": ["a", "b"], "outcome": "finished"}
    record = Record.create(tmp_path, "s", "max", about)
    which = CategoricalDistribution(["a", "b"])
    for number in range(40):
        name, share = "ab"[number % 2], number // 2 / 19
        hyperparameter = f"{name}.lr"
        params = {"trainable": name, hyperparameter: 0.001 * 1000**share}
        propose(record, params, {"trainable": which, hyperparameter: LR}, trainable=name)
        score = share if name == "a" else 0.5 - (share - 0.5) ** 2
        record.report(number, 1, score, {"acc": score}, 0.1)
        record.end(number, "finished")
    advice = advise(load(tmp_path))
    assert "4 of the 4 best lie at its upper end" in why(advice, "a.lr")
    assert "lie at" not in why(advice, "b.lr")
    assert change_of(advice, "trainable") is None


def test_of_several_objectives_ranges_are_suggested_and_no_command(tmp_path: Path) -> None:
    advice = advise(load(kinds.write("weighed", tmp_path / "s")))
    assert advice.changes
    assert not any("--refine" in step.command for step in advice.steps)
    assert "judged by acc, the first objective, alone" in advice.basis[0]


@pytest.mark.slow
def test_ten_thousand_trials_take_seconds(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "outcome": "finished"})
    for number in range(10_000):  # in memory: writing them is another test's
        lr = 0.001 * 1000 ** ((number * 7919 % 10_000) / 9_999)
        told = OptunaPoint({"lr": lr, "x": (number % 97) / 97}, {"lr": LR, "x": FloatDistribution(0, 1)})
        row = TrialRow(number, told.params, 0, 0.0, optuna=told, status="finished")
        row.epochs[1] = EpochRow(lr, {}, 0.1, 0.0)
        record._list(row)
        record._rank_epoch(row, row.attempt, 1, row.epochs[1])
    advice = advise(analysis_sweep.Sweep(record))
    assert "lie at its upper end" in why(advice, "lr")
