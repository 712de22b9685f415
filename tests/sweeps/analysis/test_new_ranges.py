"""Ends of ranges where the best trials lie: none by chance."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from sweeps.analysis.compared_trials import distributions_of
from sweeps.analysis.new_ranges import changes, edges, learn, new_value
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.space.point import OptunaPoint
from tests.conftest import propose


@pytest.mark.parametrize("trials", [10, 24, 40])
def test_of_the_many_ends_of_six_hyperparameters_none_has_the_best_by_chance(trials: int) -> None:
    """The order of the trials is that of their making."""
    ranges = {f"hyperparameter{n}": FloatDistribution(0.0, 1.0) for n in range(6)}
    found = 0
    for seed in range(40):
        source = random.Random(seed)
        rows = [
            TrialRow(number, params, 0, 0.0, optuna=OptunaPoint(params, ranges), status="finished")
            for number in range(trials)
            for params in [{name: source.random() for name in ranges}]
        ]
        found += bool(edges(rows[: max(3, trials // 5)], rows, distributions_of(rows)))
    assert found <= 4


@pytest.mark.parametrize(("step", "at"), [(None, [3]), (0.1, [])])
def test_of_eleven_values_chance_puts_two_at_an_end(step: float | None, at: list[int]) -> None:
    """Three of the five best lie in the outer tenth: by chance 0.9 % of a continuous range, but 4.5 % of one
    whose outer tenth holds two values of eleven; of two ends each is tested at 2.5 %."""
    ranges: dict[str, BaseDistribution] = {"dropout": FloatDistribution(0.0, 1.0, step=step)}
    values = [1.0, 0.9, 0.9, 0.3, 0.5, *(number % 10 / 10 for number in range(20))]
    rows = [
        TrialRow(number, params, 0, 0.0, optuna=OptunaPoint(params, ranges), status="finished")
        for number, params in enumerate({"dropout": value} for value in values)
    ]
    assert [edge.at for edge in edges(rows[:5], rows, distributions_of(rows))] == at


CLIPS = CategoricalDistribution([None, 0.1, 0.5])


def ended(folder: Path, settings: dict[str, Any], *drawn: tuple[Any, BaseDistribution]) -> Record:
    """A record whose trials had these values of `clip`, each a little better than the one before."""
    about = {"metric": "m", "identity": {"settings": settings}}
    record = Record.create(folder, "s", "max", about)
    for number, (clip, drawn_from) in enumerate(drawn):
        propose(record, {"clip": clip}, {"clip": drawn_from})
        record.report(number, 1, number / 10, {}, 1.0)
        record.end(number, "finished")
    return record


def test_a_grid_with_null_stays_as_it_is(tmp_path: Path) -> None:
    drawn = [(clip, CLIPS) for clip in CLIPS.choices]
    assert changes(ended(tmp_path, {"searcher": "grid"}, *drawn * 3)) == []


def test_a_range_in_place_of_choices_is_judged_by_the_trials_in_it(tmp_path: Path) -> None:
    before, now = [(clip, CLIPS) for clip in CLIPS.choices], FloatDistribution(0.0, 1.0)
    drawn = [*before * 3, (None, CLIPS), (0.4, now)]
    (changed,) = changes(ended(tmp_path, {"ranges": {"clip": "0..1"}}, *drawn))
    assert (changed.old, changed.why) == ("0 to 1", "around the 2 best")


def test_null_beside_the_numbers_of_an_earlier_space_is_no_end_of_theirs(tmp_path: Path) -> None:
    numbers = CategoricalDistribution([0.1, 0.5, 1.0])
    drawn = [(clip, numbers) for clip in numbers.choices]
    learnt = learn([ended(tmp_path, {}, *drawn * 5, *[(1.0, numbers)] * 3)], "", "")
    choices = [None, 0.1, 0.5, 1.0]
    assert new_value("clip", None, choices, learnt) == (
        choices,
        "the best have its largest: try a larger one",
    )
