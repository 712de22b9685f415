"""The benchmark of searches: its table, its replay, its clock and its arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _measure, curves, curves_space, replay, replay_space, search
from benchmarks.curves import Epoch
from sweeps.record.record import Record
from sweeps.space.point import OptunaPoint, Point
from sweeps.training.config import FitConfig

PLACE, OTHER = (0, 1, 0, 3, 2), (1, 0, 1, 0, 5)
OPTUNA = ("Ray OptunaSearch + ASHA, grace 1", "Ray OptunaSearch + ASHA, grace 3")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a benchmark then writes to, instead of the committed results."""
    monkeypatch.setattr(_measure, "RESULTS", tmp_path / "results")
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
    from sweeps.training.fit_loop import Fit

    positions = dict(zip(curves.load().values, PLACE, strict=True))
    found: list[float] = []
    params = replay.Params(**positions, curves_seed=seed)
    config = FitConfig(max_epochs=27, metric="val_acc", mode="max", threads=1)

    def hear(epoch: Any) -> bool:
        found.append(epoch.score)
        return True

    Fit(replay, params, config).run(hear)
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


def test_regret_is_of_the_point_that_would_be_handed_over() -> None:
    from benchmarks import _regret

    qualities = {PLACE: 0.8, OTHER: 0.7}
    found = [Epoch("0", OTHER, 1, 0.3), Epoch("1", PLACE, 1, math.nan)]
    found += [Epoch("1", PLACE, 2, 0.4)] * 10 + [Epoch("0", OTHER, 2, 0.35)]
    curve = _regret.regrets(found, qualities, budget=30)
    assert curve == [pytest.approx(0.0)] * 3
    assert _regret.regrets(found[:2], qualities, budget=10) == [pytest.approx(10.0)]
    assert _regret.mean([1.0, 2.0, 3.0])[0] == 2.0
    low, high = _regret.mean([1.0, 2.0, 3.0])[1:]
    assert 1.0 <= low < 2.0 < high <= 3.0


def test_the_better_one_of_rays_counts_and_repeats_are_paired() -> None:
    ours, rays, better = [[1.0] * 50, [3.0] * 50], [[2.0] * 50, [9.0] * 50], [[2.0] * 50, [4.0] * 50]
    by_slots = {4: {"tpe+asha": ours, OPTUNA[0]: rays, OPTUNA[1]: better, "bohb": ours}}
    pairs = search.differences(by_slots)
    assert [(row["rays"], row["epochs"], row["mean"]) for row in pairs] == [
        (OPTUNA[1], 250, -1.0),
        (OPTUNA[1], 500, -1.0),
    ]
    (line, _) = (goal.line() for goal in search.goals(pairs))
    assert line == "tpe+asha_less_rays_250_4_slots -1.00 (goal <= 0.0) met"


def test_searches_are_compared(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["tpe+asha", *OPTUNA]
    assert search.main(["--repeats", "2", "--budget", "250", "--slots", "2", "--arms", *arms]) == 0
    content = json.loads((results / "search.json").read_text())
    assert len(content["runs"]) == 2 * len(arms)
    assert {run["epochs"] for run in content["runs"]} == {250}
    assert [pair["ours"] for pair in content["differences"]] == ["tpe+asha"]
    assert (results / "search.png").stat().st_size > 10_000
    assert "tpe+asha - Ray OptunaSearch + ASHA, grace" in capsys.readouterr().out


def test_an_arm_that_is_none_is_told_the_choices() -> None:
    with pytest.raises(SystemExit, match="--arms tpa: one of random, random\\+asha, tpe"):
        search.main(["--arms", "tpa"])


def test_the_same_search_finds_the_same() -> None:
    from benchmarks import _searches

    for arm in ("bohb", "Ray TuneBOHB"):
        asked = _searches.Asked(arm, repeat=1, slots=4, budget=100)
        assert _searches.search(asked) == _searches.search(asked)


@pytest.fixture(scope="module")
def ray_of_one() -> Iterator[None]:
    from benchmarks import _searches

    with _searches.connected(slots=1):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["tpe+asha", "bohb", OPTUNA[1], "Ray TuneBOHB"])
def test_tune_itself_finds_what_its_loop_with_a_clock_finds(arm: str, ray_of_one: None) -> None:
    from benchmarks import _searches

    asked = _searches.Asked(arm, repeat=0, slots=1, budget=400)
    by_clock, by_tune = (_searches.search(asked, by_tune=by_tune) for by_tune in (False, True))
    names = {trial: number for number, trial in enumerate(dict.fromkeys(epoch.trial for epoch in by_tune))}
    same = {trial: number for number, trial in enumerate(dict.fromkeys(epoch.trial for epoch in by_clock))}
    assert [(names[e.trial], e.place, e.epoch, e.score) for e in by_tune] == [
        (same[e.trial], e.place, e.epoch, pytest.approx(e.score)) for e in by_clock
    ]
