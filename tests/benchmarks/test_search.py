"""The benchmark of searches: its table, its replay, its clock and its arithmetic."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    _ask_and_tell,
    _asked,
    _comparison,
    _measure,
    _optuna_search,
    _regret,
    _searches,
    _synetune,
    _wandb,
    curves,
    curves_space,
    lcbench,
    regret_bars,
    replay,
    replay_space,
    search,
)  # fmt: skip
from benchmarks._comparison import Run
from benchmarks._problems import Epoch, FashionCnn, Lcbench
from sweeps.record.record import Record
from sweeps.space.point import OptunaPoint, Point
from sweeps.training.config import FitConfig
from tests.support.trainables import as_trainable, run_through

PLACE, OTHER = (0, 1, 0, 3, 2), (1, 0, 1, 0, 5)
OPTUNA = "Ray OptunaSearch + ASHA, grace 3"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a benchmark then writes to, instead of the committed results."""
    monkeypatch.setenv(_measure.RESULTS, str(tmp_path / "results"))
    return tmp_path / "results"


def test_the_table_holds_the_whole_grid_with_both_seeds() -> None:
    table = curves.load()
    assert table.values == {name: tuple(domain.categories) for name, domain in curves_space.SPACE.items()}
    assert len(table.qualities) == math.prod(map(len, table.values.values())) >= 200
    assert (table.seeds, table.epochs) == ((0, 1), 27)
    assert len(table.scores) == 2 * len(table.qualities)
    assert curves.TABLE.stat().st_size <= 3e6


def test_the_choice_matters_in_the_table() -> None:
    qualities = sorted(curves.load().qualities.values())
    assert qualities[-1] > 0.8
    assert qualities[len(qualities) // 2] < qualities[-1] - 0.02
    assert qualities[0] < 0.3


def test_a_quality_is_of_the_best_epoch_and_the_mean_over_the_seeds() -> None:
    scores = {(PLACE, 0): (0.5, 0.9, 0.8), (PLACE, 1): (0.6, math.nan)}
    table = curves.Curves({}, scores, scores)
    assert table.qualities == {PLACE: pytest.approx(0.75)}


def test_the_space_of_the_searches_is_the_grid() -> None:
    assert [domain.upper for domain in replay_space.SPACE.values()] == [
        len(values) for values in curves.load().values.values()
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_replayed_trial_scores_what_the_table_says(seed: int) -> None:
    from sweeps.training.runs.fit_loop import Fit

    positions = dict(zip(curves.load().values, PLACE, strict=True))
    found: list[float] = []
    params = replay.Params(**positions, curves_seed=seed)
    config = FitConfig(max_epochs=27, metric="val_acc", mode="max", threads=1)

    def hear(epoch: Any) -> bool:
        found.append(epoch.score)
        return True

    run_through(Fit(as_trainable(replay), params, config), hear)
    assert found == pytest.approx(curves.load().scores[PLACE, seed])


def a_sweep(folder: Path, seed: int, ends: dict[str, int]) -> str:
    """A recorded sweep of lr = 0.1, 0.2 ...; how each trial ended, and after how many epochs."""
    folder.mkdir()
    record = Record.create(folder, "curves", "max", {"metric": "val_acc"})
    for number, (status, epochs) in enumerate(ends.items()):
        record.begin(Point("fashion_cnn", {"lr": (number + 1) / 10}), OptunaPoint(), seed)
        for epoch in range(1, epochs + 1):
            score = math.nan if status == "diverged" and epoch == epochs else epoch / 10 + seed
            record.report(number, epoch, score, {"val_acc": score, "val_loss": 1.0}, 0.5)
        if status != "unfinished":
            record.end(number, status)  # type: ignore[arg-type]
    return str(folder)


def test_sweeps_become_a_table_and_a_diverged_trial_keeps_its_shorter_curve(tmp_path: Path) -> None:
    folders = [a_sweep(tmp_path / str(seed), seed, {"finished": 3, "diverged": 2}) for seed in (0, 1)]
    assert curves.main([*folders, "--output", str(tmp_path / "table.parquet")]) == 0
    table = curves.load(str(tmp_path / "table.parquet"))
    assert table.values == {"lr": (0.1, 0.2)}
    assert table.scores[(0,), 1] == pytest.approx((1.1, 1.2, 1.3))
    assert table.scores[(1,), 0] == pytest.approx((0.1, math.nan), nan_ok=True)
    assert table.seconds[(0,), 0] == (0.5, 0.5, 0.5)


def test_a_sweep_that_has_not_ended_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_sweep(tmp_path / "sweep", 0, {"finished": 2, "unfinished": 1})
    assert curves.main([folder, "--output", str(tmp_path / "table.parquet")]) == 2
    assert "trial 1 is unfinished; all must have finished or diverged: --resume it" in capsys.readouterr().err
    assert not (tmp_path / "table.parquet").exists()


def test_a_table_with_holes_is_refused(tmp_path: Path) -> None:
    folders = [
        a_sweep(tmp_path / str(seed), seed, ends)
        for seed, ends in ((0, {"finished": 3, "diverged": 2}), (1, {"finished": 3}))
    ]
    assert curves.main([*folders, "--output", str(tmp_path / "table.parquet")]) == 0
    with pytest.raises(ValueError, match="3 curves of 4, the grid with every seed"):
        curves.load(str(tmp_path / "table.parquet"))


def test_the_choice_on_fashion_cnn_is_the_best_score_of_any_epoch_and_counts_by_its_quality() -> None:
    problem, table = FashionCnn(0), curves.load()
    place, other = (tuple(zip(table.values, each, strict=True)) for each in (PLACE, OTHER))
    found = [Epoch("0", other, 1, 0.3), Epoch("1", place, 1, math.nan), Epoch("1", place, 2, 0.4)]
    best = max(table.qualities.values())
    regret = problem.regret([*found, Epoch("0", other, 2, 0.35)])
    assert regret.choice == pytest.approx(100 * (best - table.qualities[PLACE]))
    assert problem.regret(found[:2]).choice == pytest.approx(100 * (best - table.qualities[OTHER]))
    most = max(max(filter(math.isfinite, scores)) for (_, seed), scores in table.scores.items() if seed == 0)
    assert regret.weights == pytest.approx(100 * (most - 0.4))


def test_means_and_ratios_have_intervals() -> None:
    assert _regret.mean([1.0, 2.0, 3.0]).value == 2.0
    assert 1.0 <= _regret.mean([1.0, 2.0, 3.0]).low < 2.0 < _regret.mean([1.0, 2.0, 3.0]).high <= 3.0
    assert _regret.ratio([1.0, 2.0], [2.0, 4.0]) == pytest.approx((0.5, 0.5, 0.5))


def a_run(arm: str, problem: str, seed: int, choice: float, weights: float = 1.0, budget: int = 500) -> Run:
    return Run("lcbench", problem, arm, 4, seed, budget, budget, 60, choice, weights)


def test_searches_are_paired_by_problem_and_seed() -> None:
    runs = [a_run("tpe+asha", name, seed, 8.0 + seed) for name in "ab" for seed in (0, 1)]
    runs += [a_run("gp+halving", name, seed, 4.0 + seed, 2.0) for name in "ab" for seed in (1, 0)]
    runs += [a_run("bohb", "a", 0, 3.0)]
    rows = {row["arm"]: row for row in _comparison.summary(runs)}
    assert rows["gp+halving"]["choice_less_today"] == [-4.0, -4.0, -4.0]
    assert rows["gp+halving"]["choice_ratio"][0] == pytest.approx(4.5 / 8.5, abs=1e-3)
    assert rows["bohb"]["searches"] == 1
    lines = [goal.line() for goal in _comparison.goals(runs)]
    assert lines == [
        "share_of_todays_regret_500_epochs_4_at_a_time 0.53 (goal <= 0.75) met",
        "its_upper_end_500_epochs_4_at_a_time 0.56 (goal <= 1.0) met",
        "points_worse_on_a_task_500_epochs_4_at_a_time -4.00 (goal <= 3.0) met",
        "surely_behind_bohb_lcbench_500_epochs_4_at_a_time 1.00 (goal <= 0.0) missed",
        "weights_surely_worse_lcbench_500_epochs_4_at_a_time 1.00 (goal <= 0.0) missed",
    ]


def test_one_task_that_gets_worse_is_seen() -> None:
    runs = [a_run("tpe+asha", name, 0, 8.0) for name in "abc"]
    runs += [a_run("gp+halving", name, 0, choice) for name, choice in (("a", 1.0), ("b", 1.0), ("c", 12.5))]
    lines = [goal.line() for goal in _comparison.goals(runs)]
    assert "points_worse_on_a_task_500_epochs_4_at_a_time 4.50 (goal <= 3.0) missed" in lines


def test_searches_are_compared(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["tpe+asha", "random+halving", OPTUNA]
    asked = ["--families", "fashion_cnn", "--repeats", "1", "--budgets", "60", "120", "--slots", "2"]
    assert search.main([*asked, "--arms", *arms, "--processes", "1", "--decision", "to try it"]) == 0
    content = json.loads((results / "search.json").read_text())
    assert {(row["arm"], row["budget"]) for row in content["summary"]} == {
        (arm, budget) for arm in arms for budget in (60, 120)
    }
    assert {row["problem"] for row in content["by_problem"]} == {"seed 0", "seed 1"}
    assert all(0.7 * row["budget"] <= row["epochs"] <= row["budget"] for row in content["summary"])
    assert (results / "search.png").stat().st_size > 10_000
    assert "fashion_cnn, 2 at a time: regret of the choice" in capsys.readouterr().out
    checks = (results / "search_checks.md").read_text()
    assert checks.startswith("# Looks at the tasks to check\n\n## ")
    assert ": to try it\n" in checks


def test_an_arm_that_is_none_is_told_the_choices() -> None:
    with pytest.raises(SystemExit, match="--arms tpa: one of random, random\\+asha, random\\+halving, tpe"):
        search.main(["--arms", "tpa"])


@pytest.mark.parametrize("arm", ["bohb", "gp+halving", "Ray TuneBOHB"])
def test_the_same_search_finds_the_same(arm: str) -> None:
    asked = _asked.Asked(arm, FashionCnn(1), seed=1, slots=4, budget=100)
    assert _searches.search(asked) == _searches.search(asked)


def test_a_forecast_of_halving_is_what_happens() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra bench: pip install -e '.[bench]'")
    for budget in (160, 300):
        asked = _asked.Asked("random+halving", Lcbench("7593"), seed=1, slots=4, budget=budget)
        assert budget - 10 <= len(_searches.search(asked)) <= budget


def test_a_search_begins_at_what_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra bench: pip install -e '.[bench]'")
    problem, near = Lcbench("7593"), "gp+halving, near prior"
    best = dataclasses.replace(_searches.OURS[near], prior=_searches.Prior(500, max))
    monkeypatch.setitem(_searches.OURS, "best", best)
    arms = ("gp+halving, misleading prior", "gp+halving, good prior", "best", near)
    first = {arm: _searches.search(_asked.Asked(arm, problem, 0, 1, 3))[0].point for arm in arms}
    ends = [problem.curve(dict(point)).scores[-1] for point in first.values()]
    assert ends[0] < ends[1] <= ends[2]
    assert first[near] != first["best"]


def test_a_curve_of_lcbench_is_what_its_network_predicts() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra bench: pip install -e '.[bench]'")
    params = lcbench.Params(learning_rate=0.05, momentum=0.5)
    scores = lcbench.scores("167181", vars(params))
    assert len(scores) == 52
    assert 0.5 < scores[-1] < lcbench.tasks()["best"]["167181"] + 0.01
    assert scores != lcbench.scores("7593", vars(params))
    found = [Epoch("0", Lcbench("167181").curve(vars(params)).point, 52, scores[-1])]
    regret = Lcbench("167181").regret(found)
    assert regret.choice == pytest.approx(regret.weights)


def test_the_tasks_to_fit_and_to_check_are_others() -> None:
    fit, check = (set(lcbench.tasks()[key]) for key in ("to_fit", "to_check"))
    assert (len(fit), len(check)) == (12, 11)
    assert not fit & check
    assert fit | check == set(lcbench.tasks()["best"])


@pytest.fixture(scope="module")
def ray_of_one() -> Iterator[None]:
    with _searches.connected(slots=1):
        yield


@pytest.mark.long
@pytest.mark.parametrize("arm", ["tpe+asha", "gp+halving", "bohb", OPTUNA, "Ray TuneBOHB"])
def test_tune_itself_finds_what_its_loop_with_a_clock_finds(arm: str, ray_of_one: None) -> None:
    asked = _asked.Asked(arm, FashionCnn(0), seed=0, slots=1, budget=400)
    by_clock, by_tune = (_searches.search(asked, by_tune=by_tune) for by_tune in (False, True))
    names = {trial: number for number, trial in enumerate(dict.fromkeys(epoch.trial for epoch in by_tune))}
    same = {trial: number for number, trial in enumerate(dict.fromkeys(epoch.trial for epoch in by_clock))}
    assert [(names[e.trial], e.point, e.epoch, e.score) for e in by_tune] == [
        (same[e.trial], e.point, e.epoch, pytest.approx(e.score)) for e in by_clock
    ]


def epochs_of_trials(search: Any) -> dict[str, list[int]]:
    """Trial to its epochs, of the first 300 that a search trains."""
    found: dict[str, list[int]] = {}
    for epoch in itertools.islice(_ask_and_tell.replay(FashionCnn(0), 4, search), 300):
        found.setdefault(epoch.trial, []).append(epoch.epoch)
    assert all(epochs == list(range(1, len(epochs) + 1)) for epochs in found.values())
    return found


def test_syne_tune_searches_the_same_problem() -> None:
    if not _synetune.is_installed():
        pytest.skip("Syne Tune is not installed (python -m benchmarks.search --help)")
    found = epochs_of_trials(_synetune.Search(FashionCnn(0), 0, 3, 3))
    assert {len(epochs) for number, epochs in found.items() if int(number) < 4} & {3, 9, 27}


@pytest.mark.parametrize("arm", ["Optuna TPE + Hyperband", "Optuna TPE + successive halving"])
def test_optuna_by_itself_prunes_at_the_same_rungs(arm: str) -> None:
    found = epochs_of_trials(_optuna_search.Search(arm, FashionCnn(0), 0))
    lengths = [len(epochs) for epochs in found.values()]
    assert {3, 9, 27} <= set(lengths)
    assert sum(length not in (3, 9, 27) for length in lengths) <= 4  # those that still train


def test_the_engine_of_wandb_searches_the_same_problem() -> None:
    if not _wandb.is_installed():
        pytest.skip("the engine of W&B Sweeps is not installed (benchmarks/_wandb.py)")
    found = epochs_of_trials(_wandb.Search("W&B Bayes + Hyperband", FashionCnn(0), 0))
    assert {3, 27} <= set(map(len, found.values()))


class Scripted:
    """A search of one point; at the second epoch of trial 1 it stops trials 0 and 1."""

    def propose(self) -> dict[str, int]:
        return dict(zip(curves.load().values, PLACE, strict=True))

    def hear(self, number: int, epoch: int, score: float, is_last: bool) -> list[int]:
        return [0, 1] if (number, epoch) == (1, 2) else []


def test_a_search_may_stop_another_trial_than_the_one_that_reports() -> None:
    found = list(itertools.islice(_ask_and_tell.replay(FashionCnn(0), 2, Scripted()), 6))
    assert [(int(each.trial), each.epoch) for each in found] == [
        (0, 1), (1, 1), (0, 2), (1, 2), (2, 1), (3, 1)
    ]  # fmt: skip


def a_row(family: str, arm: str, value: float) -> dict[str, Any]:
    choice = [value, value - 1, value + 1]
    return {"family": family, "slots": 4, "budget": 500, "arm": arm, "choice": choice}


def test_bars_show_the_best_arm_of_each_program_and_the_losses_of_ours() -> None:
    arms = {"gp+halving": 4.0, "Optuna TPE + median": 9.0, "Optuna TPE + Hyperband": 3.0, "random": 8.0}
    rows = [a_row(family, arm, value) for family in regret_bars.PANELS for arm, value in arms.items()]
    assert [(bar.program, bar.value) for bar in regret_bars.bars(rows, "lcbench")] == [
        ("gp+halving", 4.0), ("Optuna", 3.0), ("random", 8.0)
    ]  # fmt: skip
    drawn = regret_bars.picture(rows)
    assert drawn.index(">Optuna<") < drawn.index(">sweeps<") < drawn.index(">Random search<")


def test_the_bars_in_the_docs_are_those_of_the_results() -> None:
    rows = json.loads((regret_bars.RESULTS / "regret.json").read_text())["summary"]
    assert regret_bars.PICTURE.read_text() == regret_bars.picture(rows)


def test_the_table_in_the_docs_is_that_of_the_results() -> None:
    rows = json.loads((regret_bars.RESULTS / "regret.json").read_text())["summary"]
    page = (regret_bars.PICTURE.parents[1] / "benchmarks.md").read_text()
    assert "\n".join(regret_bars.table(rows)[2:]) in page
