"""Searches that have a model keep away from what does not fit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import Status
from sweeps.search.known_trials import Feasibility, KnownTrials
from sweeps.space.flat import check
from sweeps.space.point import Point, Space
from tests.conftest import propose
from tests.sweeps.searchers.play import Params, Play

WIDTHS = {"width": tune.randint(1, 101)}
LIMIT = 50
SPACE: Space = check(WIDTHS, Params, {}, frozenset({"finite"}), "grid")


def new_record(folder: Path, widths: range, bad: Status = "infeasible") -> Record:
    """Trials of which those of more than LIMIT do not fit."""
    record = Record.create(folder, "s", "max", {"metric": "m", "fixed": {}})
    end(record, widths, bad)
    return record


def end(record: Record, widths: range, bad: Status = "infeasible") -> None:
    for width in widths:
        number = propose(record, {"width": width}).number
        if width <= LIMIT:
            record.report(number, 1, width / 100, {}, 1.0)
            record.end(number, "pruned")
        else:
            record.end(number, bad, "out of memory")


def points_of(widths: Iterable[int]) -> list[Point]:
    return [Point("", {"width": width}, {}) for width in widths]


def first(record: Record, *widths: int, numbers: int = 20) -> list[int]:
    """The width that each of several proposals takes first of these, in this order."""

    feasibility, points = Feasibility(0, KnownTrials(SweepConfig(), SPACE, record)), points_of(widths)
    proposed = (next(feasibility.likely_first(number, iter(points))) for number in range(numbers))
    return [int(str(point.params["width"])) for point in proposed]


def test_what_fits_comes_before_what_does_not(tmp_path: Path) -> None:
    found = first(new_record(tmp_path, range(5, 100, 8)), 90, 80, 20, 10, numbers=40)
    assert set(found) <= {90, 20}
    assert found.count(20) >= 34, "but for a few, in case the model is wrong"


def test_of_what_probably_does_not_fit_the_likeliest_comes_first(tmp_path: Path) -> None:
    found = first(new_record(tmp_path, range(5, 100, 8)), 95, 57, 75)
    assert found.count(57) >= 16


@pytest.mark.parametrize("widths", [range(5, 50, 8), range(60, 100, 8), range(0)])
def test_where_all_or_none_fit_nothing_is_known(widths: range, tmp_path: Path) -> None:
    assert set(first(new_record(tmp_path, widths), 90, 20)) == {90}


def test_a_trial_that_failed_for_another_reason_says_nothing(tmp_path: Path) -> None:
    assert set(first(new_record(tmp_path, range(5, 100, 8), "failed"), 90, 20)) == {90}


def test_what_is_tried_again_and_fits_is_learnt_anew(tmp_path: Path) -> None:
    record = new_record(tmp_path, range(5, 100, 8))
    kept = Feasibility(0, KnownTrials(SweepConfig(), SPACE, record))
    assert next(point.params["width"] for point in kept.likely_first(1, iter(points_of([90, 20])))) == 20
    for trial in [trial for trial in record.trials if trial.status == "infeasible"]:
        record.open_again(trial.number, 0, "retried")
    assert set(first(record, 90, 20)) == {90}, "while they train nothing is known of them"
    for trial in record.live:
        record.report(trial.number, 1, 0.5, {}, 1.0)
        record.end(trial.number, "pruned")
    assert set(first(record, 90, 20)) == set(first(Record.read(tmp_path), 90, 20)) == {90}
    assert next(point.params["width"] for point in kept.likely_first(1, iter(points_of([90, 20])))) == 90


def test_it_follows_from_the_record_alone(tmp_path: Path) -> None:
    record = new_record(tmp_path, range(5, 100, 8))
    candidates = [*range(40, 61), 90]
    before = first(record, *candidates)
    assert before == first(Record.read(tmp_path), *candidates)


def test_all_candidates_come_in_the_end(tmp_path: Path) -> None:
    record = new_record(tmp_path, range(5, 100, 8))

    feasibility = Feasibility(0, KnownTrials(SweepConfig(), SPACE, record))
    found = [p.params["width"] for p in feasibility.likely_first(3, iter(points_of(range(1, 101))))]
    assert sorted(found) == list(range(1, 101))  # type: ignore[type-var]
    assert max(found[:30]) <= LIMIT  # type: ignore[operator, type-var]


@pytest.mark.slow
@pytest.mark.parametrize("others", [{}, {"lr": tune.loguniform(1e-4, 1.0)}], ids=["grid", "continuous"])
@pytest.mark.parametrize("searcher", ["gp", "tpe"])
def test_a_search_that_is_drawn_to_what_does_not_fit_learns(
    searcher: str, others: dict[str, Any], tmp_path: Path
) -> None:
    """The wider the better: by chance half of the proposals would not fit, and by the scores alone more."""
    play = Play(searcher, tmp_path, {**WIDTHS, **others}, num_trials=45)
    missed = []
    for _ in range(40):
        params = play.propose()["params"]
        trial = play.record.live[0]
        missed.append(params["width"] > LIMIT)
        if missed[-1]:
            play.record.end(trial.number, "infeasible", "out of memory")
        else:
            for epoch in (1, 3, 9):
                play.record.report(trial.number, epoch, params["width"] / 100, {}, 1.0)
            play.record.end(trial.number, "finished")
    assert sum(missed[20:]) <= 5
