"""The Gaussian process as a searcher: what it learns from, and from how many results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from ray import tune

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import Earlier, EpochRow, TrialRow
from sweeps.search.gaussian_process import Array, GaussianProcess
from sweeps.searchers import gp
from sweeps.space import conditional, flat
from tests.conftest import propose
from tests.sweeps.searchers.play import Params, Play, score_of

WIDTHS = {"width": tune.randint(1, 101)}
Report = Callable[[Record, int, int], None]
"""Of a trial, by its number and its width."""


def proposed(folder: Path, report: Report, seeds: int = 9) -> list[int]:
    """The width that each of several seeds proposes after twelve trials."""
    folder.mkdir(exist_ok=True)
    found = []
    for seed in range(seeds):
        play = Play("gp", folder / str(seed), WIDTHS, seed=seed)
        for number in range(12):
            width = 5 + 8 * number
            propose(play.record, {"width": width})
            report(play.record, number, width)
        found.append(play.propose()["params"]["width"])
    return found


def at_epoch(epoch: int, best: int) -> Report:
    """All trials end at this epoch; the nearer to a width the better."""

    def report(record: Record, number: int, width: int) -> None:
        record.report(number, epoch, -abs(width - best) / 100, {}, 1.0)
        record.end(number, "pruned")

    return report


def test_the_first_trials_fill_the_space(tmp_path: Path) -> None:
    def least_gap(name: str, seed: int) -> int:
        play = Play(name, tmp_path / f"{name}{seed}", WIDTHS, seed=seed)
        widths = sorted(params["width"] for params in play.run(6, slots=6))
        return min(high - low for low, high in itertools.pairwise(widths))

    filled, drawn = ([least_gap(name, seed) for seed in range(9)] for name in ("gp", "random"))
    assert min(filled) >= 5
    assert median(filled) > 2 * median(drawn)


@pytest.mark.parametrize("epoch", [1, 3, 9])
def test_it_learns_from_every_rung(epoch: int, tmp_path: Path) -> None:
    low = median(proposed(tmp_path / "low", at_epoch(epoch, 10)))
    high = median(proposed(tmp_path / "high", at_epoch(epoch, 90)))
    assert low < 30
    assert high > 70


def test_it_learns_from_no_epoch_between_rungs(tmp_path: Path) -> None:
    low = proposed(tmp_path / "low", at_epoch(2, 10))
    assert low == proposed(tmp_path / "high", at_epoch(2, 90))


def test_what_later_epochs_say_counts_more_than_what_earlier_ones_said(tmp_path: Path) -> None:
    def report(record: Record, number: int, width: int) -> None:
        record.report(number, 1, -width / 100, {}, 1.0)  # small ones learn faster
        for epoch in (2, 3, 9):
            record.report(number, epoch, width / 100, {}, 1.0)
        record.end(number, "finished")

    assert median(proposed(tmp_path, report)) > 80


def test_it_keeps_away_from_where_trials_diverged(tmp_path: Path) -> None:
    """The large ones are the better ones, up to where they diverge."""

    def report(record: Record, number: int, width: int) -> None:
        is_too_large = width > 70
        record.report(number, 1, math.nan if is_too_large else width / 100, {}, 1.0)
        record.end(number, "diverged" if is_too_large else "pruned")

    assert 45 < median(proposed(tmp_path, report)) < 85


def test_it_learns_from_the_sweeps_that_a_sweep_refines(tmp_path: Path) -> None:
    def first(best: int) -> Any:
        rows = [
            TrialRow(-1, {"width": width}, 0, 0.0, trainable="", status="pruned", epochs={
                3: EpochRow(-abs(width - best) / 100, {}, 0.0, 0.0)
            })
            for width in range(5, 100, 8)
        ]  # fmt: skip
        play = Play("gp", tmp_path / str(best), WIDTHS)
        play.record.earlier = Earlier(trials=rows)
        return play.propose()["params"]["width"]

    assert first(10) < 40
    assert first(90) > 60


@pytest.mark.slow
def test_of_many_results_those_of_trials_that_diverged_stay(tmp_path: Path) -> None:
    """The larger the better, up to where they diverge; no trial of the last 120 did."""

    def lr_of(seed: int) -> float:
        play = Play("gp", tmp_path / str(seed), {"lr": tune.uniform(0, 1)}, seed=seed, num_trials=200)
        for number in range(150):
            lr = 0.71 + 0.01 * number if number < 30 else 0.3 + 0.4 * (number - 30) / 120
            propose(play.record, {"lr": lr})
            for epoch in (1, 3, 9):
                play.record.report(number, epoch, math.nan if lr > 0.7 else lr, {}, 1.0)
            play.record.end(number, "diverged" if lr > 0.7 else "finished")
        return play.propose()["params"]["lr"]

    assert median(lr_of(seed) for seed in range(9)) < 0.75


@pytest.mark.slow
def test_it_learns_in_a_space_of_choices(tmp_path: Path) -> None:
    """Points that were tried take no place among the candidates."""
    choices = {"lr": tune.choice([0.1, 0.2, 0.3, 0.4, 0.5]), "width": tune.choice([2, 4, 8, 12, 16, 24])}
    both = {**choices, "activation": tune.choice(["relu", "gelu", "tanh"])}

    def late(name: str, seed: int) -> float:
        params = Play(name, tmp_path / f"{name}{seed}", both, seed=seed).run(36)
        return median(score_of(each) for each in params[18:])

    learnt, drawn = ([late(name, seed) for seed in range(4)] for name in ("gp", "random"))
    assert min(learnt) > max(drawn)


def searched(folder: Path, names: str, trials: int) -> tuple[gp.Searcher, Array, Array]:
    """A searcher after some random trials whose scores are best in the middle; these points, and scores."""
    ranges = {name: tune.uniform(0, 1) for name in names}
    params = make_dataclass("params", [(name, float, 0.5) for name in ranges], kw_only=True, frozen=True)
    record = Record.create(folder, "s", "max", {"metric": "m"})
    config = SweepConfig.from_settings(searcher="gp", num_trials=40, max_epochs=9)
    searcher = gp.Searcher(config, flat.check(ranges, params, {}, gp.Searcher.TAKES, "gp"), record)
    points = np.random.default_rng(0).random((trials, len(names)))
    scores = -((points - 0.4) ** 2).sum(axis=1)
    for number, (point, score) in enumerate(zip(points, scores, strict=True)):
        propose(record, dict(zip(ranges, point.tolist(), strict=True)))
        record.report(number, 9, score, {}, 1.0)
        record.end(number, "finished")
    return searcher, points, scores


def test_a_proposal_may_be_better_than_the_best_of_many_random_points(tmp_path: Path) -> None:
    """By the upper bounds of the same model."""
    searcher, points, scores = searched(tmp_path, "abcdef", 20)
    model = GaussianProcess(np.column_stack([points, np.ones(20)]), scores)

    def bounds(rows: Array) -> Array:
        mean, deviation = model.predict(np.column_stack([rows, np.ones(len(rows))]))
        return mean + gp.CONFIDENCE * deviation

    proposed = np.array([[*next(searcher.propose(number)).params.values()] for number in range(20, 40)])
    best_drawn = bounds(np.random.default_rng(1).random((5000, 6))).max()
    assert (bounds(proposed) > best_drawn).sum() > 12  # some are random


def test_what_is_proposed_at_a_time_is_not_the_same_point(tmp_path: Path) -> None:
    searcher, *_ = searched(tmp_path, "ab", 12)
    proposed = []
    for number in range(12, 20):
        proposed.append(next(searcher.propose(number)).params)
        propose(searcher.record, proposed[-1])
    rows = np.array([[*params.values()] for params in proposed])
    distances = np.abs(rows[:, None] - rows).max(axis=2)[np.triu_indices(8, 1)]
    assert (distances < 0.02).sum() < 8, rows


def test_it_does_not_stick_to_the_end_of_a_branch(tmp_path: Path) -> None:
    """Each branch has its own range of lr, and both ranges end at 0.01."""

    def suggest(trial: Any) -> None:
        is_relu = trial.suggest_categorical("activation", ["relu", "gelu", "tanh"]) == "relu"
        trial.suggest_float("lr", 1e-2 if is_relu else 1e-5, 1.0 if is_relu else 1e-2, log=True)
        if is_relu:
            trial.suggest_int("width", 1, 100)

    space = conditional.check(suggest, Params, {}, gp.Searcher.TAKES, "gp")
    record = Record.create(tmp_path, "s", "max", {"metric": "m", "fixed": {}})
    searcher = gp.Searcher.build(
        SweepConfig.from_settings(searcher="gp", num_trials=40, max_epochs=9), space, record
    )
    for number in range(40):
        params = searcher.suggest(str(number))["params"]
        best = {"relu": 1e-1, "gelu": 1e-4, "tanh": 1e-4}[params["activation"]]
        record.report(
            number, 9, -abs(math.log10(params["lr"] / best)) - (params["activation"] == "tanh"), {}, 1.0
        )
        record.end(number, "finished")
    assert sum(trial.params["lr"] == pytest.approx(1e-2) for trial in record.trials) < 5
