"""Grid search: every point once, also when more trials are asked for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from ray import tune
from ray.tune.search import Searcher

from sweeps.common.errors import UserError
from sweeps.config import plugins
from sweeps.space.flat import check
from tests.sweeps.searchers.play import FINITE, SMALL, Params, Play, grid, keys


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("first", "then"), [(1, 6), (2, 4), (3, 5), (5, 6)])
def test_a_grid_for_more_trials_begins_with_those_it_has_and_tries_each_point_once(
    first: int, then: int, ended: bool, tmp_path: Path
) -> None:
    begun = Play("grid", tmp_path / "s", SMALL, seed=7, num_trials=first)
    before = begun.run(first, slots=first)
    assert begun.propose() is None
    while ended and begun.record.live:
        begun.end_oldest()
    resumed = Play.resumed("grid", tmp_path / "s", SMALL, seed=7, num_trials=then)
    resumed.run(then - first + (0 if ended else first), slots=6)
    params = [dict(trial.params) for trial in resumed.record.trials]
    assert params[:first] == before
    assert len(params) == len(keys(params)) == then
    at_once = Play("grid", tmp_path / "at_once", SMALL, seed=7, num_trials=then).run(then)
    assert keys(params) == keys(at_once), "as if so many had been asked for from the start"
    while resumed.record.live:
        resumed.end_oldest()
    assert resumed.propose() == Searcher.FINISHED


def test_a_large_grid_for_many_more_trials_tries_what_it_would_have_from_the_start(tmp_path: Path) -> None:
    """400 points: Python samples few of many in another way than many of many."""
    Play("grid", tmp_path / "s", FINITE, num_trials=50).run(50, slots=50)
    resumed = Play.resumed("grid", tmp_path / "s", FINITE, num_trials=120).run(120, slots=120)
    at_once = Play("grid", tmp_path / "at_once", FINITE, num_trials=120).run(120, slots=120)
    assert keys(resumed) == keys(at_once)


def test_trials_outside_the_grid_leave_a_sample_of_all_of_it(tmp_path: Path) -> None:
    """A new grid has a sample of its own, without a corner of it, and each trial of the old one counts."""
    begun = Play("grid", tmp_path / "s", SMALL, seed=7, num_trials=6)
    begun.run(6, slots=6)
    while begun.record.live:
        begun.end_oldest()
    wide = {**SMALL, "width": tune.choice([16, *range(32, 64)])}
    resumed = Play.resumed("grid", tmp_path / "s", wide, seed=7, num_trials=16)
    proposed = resumed.run(10, slots=20)
    order = random.Random(7).sample(grid(wide), 66)
    fresh = [point for point in order if point["width"] != 16]
    assert keys(proposed) == keys(fresh[:10])


def test_a_grid_too_large_to_list_is_refused() -> None:
    huge = {"width": tune.randint(0, 1000), "lr": tune.quniform(0.0, 1.0, 0.001)}
    with pytest.raises(UserError, match=r"1,001,000 points, at most 100,000; take coarser steps"):
        plugins.find("searcher", "grid").check(check(huge, Params, {}, frozenset({"finite"}), "grid"))


def test_a_grid_goes_through_the_last_hyperparameter_fastest(tmp_path: Path) -> None:
    proposed = Play("grid", tmp_path, SMALL, num_trials=6).run(6)
    assert [(point["width"], point["activation"]) for point in proposed] == [
        (width, activation) for width in (4, 8, 16) for activation in ("relu", "gelu")
    ]


def test_a_part_of_a_grid_is_tried_in_the_order_of_the_grid(tmp_path: Path) -> None:
    order = grid(FINITE)
    positions = [order.index(point) for point in Play("grid", tmp_path, FINITE, num_trials=12).run(12)]
    assert positions == sorted(positions)
