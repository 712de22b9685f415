"""What a record advises, on sweeps of a known function: what is there is found, what is not is not said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sweeps.analysis import figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.advice import Advice, advise
from sweeps.analysis.fidelity import fidelity
from sweeps.analysis.influence import influence
from sweeps.analysis.sweep import load
from sweeps.record.record import Record
from sweeps.record.trials import EpochRow, TrialRow
from sweeps.space.point import OptunaPoint
from tests.conftest import propose
from tests.support import kinds
from tests.support.searched import by_hand, peak, pruned_by_lr, searched

LR = FloatDistribution(0.001, 1.0, log=True)


def advice_on(folder: Path, score: Any, **settings: Any) -> Advice:
    return advise(searched(folder, "s", score, **settings))


def text(advice: Advice) -> str:
    return "\n".join(advice.lines)


def test_a_best_at_the_upper_end_widens_it_there(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, peak(3.0), num_trials=24)
    (edge,) = advice.widen
    assert (edge.hyperparameter, edge.side) == ("lr", "high")
    assert edge.new is not None
    assert edge.new.low == 0.001
    assert 1.0 < edge.new.high < 10
    assert (
        "lr: 5 of the 5 best trials, including the first of them, lie at the upper end of 0.001 to 1"
        in text(advice)
    )
    assert advice.more_trials_help is False
    assert "widen it first" in text(advice)


def test_an_end_that_cannot_be_moved_is_not_to_be_widened_first(tmp_path: Path) -> None:
    words = {"share": FloatDistribution(0.0, 1.0)}
    params = [{"share": n / 23} for n in range(24)]
    advice = advise(by_hand(tmp_path, [of["share"] for of in params], words, params))
    assert "lie at the upper end of 0 to 1, which can't be widened further." in text(advice)
    assert advice.more_trials_help is not None
    assert "widen it first" not in text(advice)


def test_a_best_at_the_lower_end_widens_it_there(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, peak(1e-4), num_trials=24)
    assert [(edge.hyperparameter, edge.side) for edge in advice.widen] == [("lr", "low")]


@pytest.mark.parametrize("seed", range(6))
def test_a_best_within_widens_nothing(seed: int, tmp_path: Path) -> None:
    found = advice_on(tmp_path, peak(0.03), num_trials=30, seed=seed).widen
    assert "lr" not in [edge.hyperparameter for edge in found]


def test_diverged_trials_behind_a_limit_are_cut_off(tmp_path: Path) -> None:
    def diverges(params: Mapping[str, Any]) -> float:
        return math.nan if params["lr"] > 0.12 else peak(0.05)(params)

    advice = advice_on(tmp_path, diverges, num_trials=24)
    region = advice.cut[0]
    assert (region.hyperparameter, region.side, region.bad, region.all_bad) == ("lr", "high", 6, 6)
    assert 0.09 < region.limit < 0.15
    assert "6 of 6 trials that diverged have lr > 0.1" in text(advice)


def test_trials_that_fail_anywhere_cut_nothing(tmp_path: Path) -> None:
    turns: Iterator[int] = iter(range(100))

    def fails(params: Mapping[str, Any]) -> float:
        return math.nan if next(turns) % 4 == 0 else peak(0.03)(params)

    assert advice_on(tmp_path, fails, num_trials=24, scheduler="none").cut == ()


def test_a_rare_cause_is_cut_off_beside_a_common_one(tmp_path: Path) -> None:
    """Most trials fail by their `act`, wherever `hidden` is; few by a `hidden` that takes too much memory."""
    words = {"act": CategoricalDistribution(["relu", "tanh", "bad"]), "hidden": IntDistribution(8, 128)}
    fail_by_act = [("bad", 8 + 5 * number, "ValueError: act 3") for number in range(24)]
    end_well = [("relu", 8 + 7 * number, "") for number in range(12)]
    fail_by_memory = [("tanh", 102 + 6 * number, f"MemoryError: {number} units") for number in range(5)]
    record = kinds.begun(tmp_path)
    with record.together():
        for act, hidden, wrong in [*fail_by_act, *end_well, *fail_by_memory]:
            params, status = {"act": act, "hidden": hidden}, "failed" if wrong else "finished"
            kinds.add(record, params, 0 if wrong else 2, status, wrong, words)
    advice = advise(analysis_sweep.load(tmp_path))
    assert [region.hyperparameter for region in advice.cut] == ["act", "hidden"]
    assert "5 of 5 trials that failed (MemoryError: N units) have hidden > 90" in text(advice)


def test_a_choice_that_never_works_is_cut(tmp_path: Path) -> None:
    words = {"act": CategoricalDistribution(["relu", "tanh", "none"])}
    acts = [("relu", "tanh", "none")[n % 3] for n in range(18)]
    scores = [math.nan if act == "none" else 0.5 + n / 100 for n, act in enumerate(acts)]
    advice = advise(by_hand(tmp_path, scores, words, [{"act": act} for act in acts]))
    assert (
        "6 of 6 trials that diverged have act = none; no other trial lies there: exclude it." in advice.lines
    )


def test_a_hyperparameter_without_influence_is_to_be_fixed_with_the_figures_own_numbers(
    tmp_path: Path,
) -> None:
    sweep = searched(tmp_path, "s", peak(0.03), num_trials=100, scheduler="none", max_epochs=1, seed=3)
    advice = advise(sweep)
    assert [hyperparameter for hyperparameter, _ in advice.fix] == ["hidden"]
    found = advice.fix[0][1].at
    assert found.words == "scores at epoch 1, which 100 of 100 trials reached"
    figure = figures.importance(sweep)
    drawn = dict(zip(figure.data[0].y, figure.data[0].text, strict=True))
    (line,) = [line for line in advice.lines if "PED-ANOVA" in line]
    assert line == (
        f"hidden decided {drawn['hidden']} of which trials are among the best 10 % "
        f"(PED-ANOVA: {found.words}), and scores do not differ by its value more than by chance: fix it. "
        "A small effect can't be ruled out."
    )
    assert found.words in figure.layout.title.subtitle.text


def test_that_few_trained_long_is_said_where_that_may_matter(tmp_path: Path) -> None:
    advice = advise(pruned_by_lr(tmp_path, momentum_matters=0.4, share=0.1))
    fixed = dict(advice.fix)
    assert fixed["momentum"].at.epoch == 1
    assert (
        "(PED-ANOVA: scores at epoch 1, which 120 of 120 trials reached), and scores do not differ"
        in text(advice)
    )
    assert "Its effect on trials that train longer is not known." in text(advice)


def test_each_of_several_trainables_has_importances_of_its_own(tmp_path: Path) -> None:
    sweep = load(kinds.write("several", tmp_path / "several"))
    figure = figures.importance(sweep)
    shares = dict(zip(figure.data[0].y, figure.data[0].x, strict=True))
    for name in ("cnn", "mlp"):
        assert math.fsum(
            share for hyperparameter, share in shares.items() if hyperparameter.startswith(name)
        ) == pytest.approx(100)
        own = fidelity(sweep.record, name)
        assert own is not None
        assert shares[f"{name}.lr"] == pytest.approx(100 * own.importances[f"{name}.lr"])
    assert influence(sweep.record, "cnn") is None, "20 trials"


def test_with_few_trials_influence_is_not_told(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, peak(0.03), num_trials=24)
    assert advice.fix == ()
    assert "Hyperparameters without influence can't be found with so few trials: that needs 100" in text(
        advice
    )


def test_pruning_that_foretells_the_end_is_left_as_it_is(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, peak(0.03), num_trials=24)
    (check,) = advice.rungs
    assert (check.epoch, check.end, check.of, check.rank) == (3, 9, 24, 1)
    assert check.correlation == pytest.approx(1.0)
    assert advice.grace_epochs is None
    assert "They survived pruning, and ranks of survivors agree less than ranks of all trials." in text(
        advice
    )


def test_pruning_that_does_not_is_too_eager(tmp_path: Path) -> None:
    """At the end the order is the other way round."""
    record = Record.create(
        tmp_path,
        "s",
        "max",
        {
            "metric": "acc",
            "identity": {"settings": {"max_epochs": 9, "grace_epochs": 1, "reduction_factor": 3}},
            "outcome": "finished",
        },
    )
    for number in range(12):
        propose(record, {"lr": 0.01 * (number + 1)}, {"lr": LR})
        for epoch in range(1, 10 if number < 10 else 2):
            score = number / 20 if epoch < 3 else 0.5 - number / 20
            record.report(number, epoch, score, {"acc": score}, 0.1)
        record.end(number, "finished" if number < 10 else "pruned")
    advice = advise(load(tmp_path))
    assert [(check.epoch, check.trials) for check in advice.rungs] == [(1, 10), (3, 10)]
    assert advice.rungs[0].correlation == pytest.approx(-1)
    assert advice.rungs[0].rank == 12
    assert advice.grace_epochs == 3
    assert "Pruning may be too early" in text(advice)
    assert advice.command.endswith("--grace-epochs 3")


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        (0, "No trial was started"),
        (1, "Only one trial has a score"),
        (5, "Only 5 trials have a score at epoch"),
    ],
)
def test_few_trials_say_that_they_are_few(trials: int, said: str, tmp_path: Path) -> None:
    words = {"lr": LR}
    params = [{"lr": 0.01 * (n + 1)} for n in range(trials)]
    advice = advise(by_hand(tmp_path, [n / 10 for n in range(trials)], words, params))
    assert said in advice.lines[0]
    assert (advice.widen, advice.cut, advice.fix, advice.gain) == ((), (), (), None)
    assert "--refine" not in advice.command, "which would change nothing"


def test_of_few_trials_more_are_asked_for_and_of_ties_none(tmp_path: Path) -> None:
    for trials, wanted in ((1, "--num-trials 8"), (6, "--num-trials 12")):
        folder = tmp_path / str(trials)
        record = kinds.begun(folder, outcome="finished", identity={})
        for number in range(trials):
            kinds.add(record, kinds.drawn(number), 1)
        advice = advise(load(folder))
        assert advice.command.endswith(f"--resume {folder} {wanted}")
        (step,) = advice.steps
        assert (step.text, step.command) == (
            "Add trials: to judge ranges, 8 with different scores are needed.",
            advice.command,
        )
    settings = {"max_epochs": 9, "grace_epochs": 1, "reduction_factor": 3}
    record = kinds.begun(tmp_path / "tied", outcome="finished", identity={"settings": settings})
    kinds.constant(record)
    advice = advise(load(tmp_path / "tied"))
    assert advice.command == ""
    assert "Use another --metric, or tune other hyperparameters." in advice.lines[0]
    assert (
        "All 24 trials that reached epochs 1 and 9 have the same score at epoch 9: the correlation of their "
        "ranks can't be computed." in advice.lines
    )
    assert "The first trial at epoch" not in text(advice)


def test_behind_the_last_trial_none_came(tmp_path: Path) -> None:
    params = [{"lr": 0.01 * (n + 1)} for n in range(5)]
    advice = advise(by_hand(tmp_path, [n / 10 for n in range(5)], {"lr": LR}, params))
    assert "The best score is acc 0.4 (trial 4, epoch 1); no trial came after it." in advice.lines


def test_a_constant_metric_judges_nothing(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, lambda params: 0.5, num_trials=40)
    assert "val_acc is 0.5 in all 40 trials that reached epoch 9" in advice.lines[0]
    assert (advice.widen, advice.fix, advice.gain, advice.more_trials_help) == ((), (), None, None)


def test_where_all_diverged_the_commonest_reason_is_said(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, lambda params: math.nan, num_trials=5)
    assert advice.lines == (
        "No trial ended well: 5 of 5 failed, diverged or were infeasible. The most common reason is: "
        "val_acc is nan (5 times). Fix that before another sweep.",
    )
    assert advice.command == ""


def test_one_hyperparameter_has_no_importance_and_is_judged_all_the_same(tmp_path: Path) -> None:
    params = [{"lr": 0.001 * 1000 ** (n / 39)} for n in range(40)]
    advice = advise(by_hand(tmp_path, [n / 40 for n in range(40)], {"lr": LR}, params))
    assert [edge.hyperparameter for edge in advice.widen] == ["lr"]
    assert advice.fix == ()
    assert "Hyperparameters without influence" not in text(advice)


def test_the_largest_of_ordered_choices_is_said_in_words(tmp_path: Path) -> None:
    words = {"width": CategoricalDistribution([4, 6, 8])}
    widths = [4, 6, 8] * 6
    advice = advise(by_hand(tmp_path, [w / 10 for w in widths], words, [{"width": w} for w in widths]))
    assert advice.widen[0].new is None
    assert "have 8, the largest choice: try a larger one." in text(advice)


def test_several_trainables_are_judged_each_by_its_own_trials(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "trainable": ["a", "b"]})
    which = CategoricalDistribution(["a", "b"])
    for number in range(40):
        name, share = "ab"[number % 2], number // 2 / 19
        hyperparameter = f"{name}.lr"
        params = {"trainable": name, hyperparameter: 0.001 * 1000**share}
        words = {"trainable": which, hyperparameter: LR}
        propose(record, params, words, trainable=name)
        score = share if name == "a" else 0.5 - (share - 0.5) ** 2
        record.report(number, 1, score, {"acc": score}, 0.1)
        record.end(number, "finished")
    advice = advise(load(tmp_path))
    assert [edge.hyperparameter for edge in advice.widen] == ["a.lr"]
    assert "a.lr: 4 of the 4 best trials of a, including the first of them, lie" in text(advice)
    assert "trainable" not in [hyperparameter for hyperparameter, _ in advice.fix]


def test_hyperparameters_that_only_some_trials_have_are_no_trouble(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    for number in range(36):
        lr = 0.001 * 1000 ** (number / 35)
        has_more = number % 3 == 0
        more = {"width_2": 4 + number % 4} if has_more else {}
        words = {"lr": LR, **({"width_2": IntDistribution(4, 8 + number % 2)} if has_more else {})}
        propose(record, {"lr": lr, **more}, words)
        record.report(number, 1, number / 36, {"acc": number / 36}, 0.1)
        record.end(number, "finished")
    assert [edge.hyperparameter for edge in advise(load(tmp_path)).widen] == ["lr"]


def test_ten_thousand_trials_take_seconds(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    for number in range(10_000):  # in memory: writing them is another test's
        lr = 0.001 * 1000 ** ((number * 7919 % 10_000) / 9_999)
        told = OptunaPoint({"lr": lr, "x": (number % 97) / 97}, {"lr": LR, "x": FloatDistribution(0, 1)})
        row = TrialRow(number, told.params, 0, 0.0, optuna=told, status="finished")
        row.epochs[1] = EpochRow(lr, {}, 0.1, 0.0)
        record._list(row)
        record._rank_epoch(row, 1)
    advice = advise(analysis_sweep.Sweep(record))
    assert [edge.hyperparameter for edge in advice.widen] == ["lr"]
    assert [hyperparameter for hyperparameter, _ in advice.fix] == ["x"]


def test_where_trials_do_not_fit_is_cut_off(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "max_epochs": 1})
    for number in range(24):
        width = number * 7 % 24 + 1
        propose(record, {"width": width}, {"width": IntDistribution(1, 24)})
        if width > 16:
            record.end(number, "infeasible", f"out of memory with micro-batches of {8 + number} and 1 row")
        else:
            record.report(number, 1, -abs(width - 8), {"acc": 0.0}, 0.1)
            record.end(number, "finished")
    advice = advise(load(tmp_path))
    (region,) = advice.cut
    assert (region.hyperparameter, region.side, region.bad, region.all_bad) == ("width", "high", 8, 8)
    assert "8 of 8 trials that are infeasible have width > 16.5; no other" in text(advice)
