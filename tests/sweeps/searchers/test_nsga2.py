"""Who is a parent in NSGA-II, and what its children have."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from ray import tune

from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.searchers import nsga2
from sweeps.space.flat import FlatSpace, check
from tests.conftest import propose
from tests.support.weighed import new, report
from tests.sweeps.searchers.play import Params, Play

SPACE: FlatSpace = check(
    {"lr": tune.loguniform(1e-4, 1.0), "width": tune.randint(1, 101)},
    Params,
    {},
    nsga2.Searcher.TAKES,
    "nsga2",
)
CONFIG = SweepConfig.from_settings(searcher="nsga2", max_epochs=1, grace_epochs=1)


def parents(record: Record) -> list[int]:
    """The widths of the parents, as trial n has a width of n + 1."""
    evolution, generator = nsga2.Searcher(CONFIG, SPACE, record), np.random.default_rng(0)
    points = [evolution.known.encoding.point(row, generator) for row in evolution._parents(1)]
    return [int(point.params["width"]) for point in points]


def test_parents_are_the_first_by_front_and_none_that_diverged(tmp_path: Path) -> None:
    record = new(tmp_path)
    for number in range(30):
        propose(record, {"lr": 0.1, "width": number + 1})
        values = (1.0 - number / 30, number / 30) if number % 3 else (0.0, 1.0)
        report(record, number, 1, values if number != 4 else (0.9, 0.01))
        record.end(number, "finished" if number != 4 else "diverged")
    found = parents(record)
    assert len(found) == nsga2.MOST_PARENTS
    assert found[0] == 2, "trial 1 is better than all others in both"
    assert 5 not in found


def test_points_are_random_until_there_are_enough_parents(tmp_path: Path) -> None:
    drawn = Play("random", tmp_path / "random", SPACE_OF_PLAY).run(nsga2.MIN_TRIALS_FOR_PARENTS)
    assert Play("nsga2", tmp_path / "nsga2", SPACE_OF_PLAY).run(nsga2.MIN_TRIALS_FOR_PARENTS) == drawn


SPACE_OF_PLAY = {"lr": tune.loguniform(1e-3, 1.0), "width": tune.qlograndint(8, 64, 8)}


@pytest.mark.parametrize("name", ["nsga2", "tpe"])
def test_it_finds_more_of_the_front_of_a_known_problem_than_random_search(name: str, tmp_path: Path) -> None:
    """Error falls with lr near 0.01 and width, size grows with width: the front is a line at lr = 0.01."""

    def distance(searcher: str, seed: int) -> float:
        record = new(tmp_path / f"{searcher}{seed}")
        config = CONFIG.changed(searcher=searcher, seed=seed)
        built = plugins.find("searcher", searcher).build(config, SPACE, record)
        for number in range(60):
            params = built.suggest(str(number))["params"]
            away, width = abs(math.log10(params["lr"]) + 2), params["width"] / 100
            report(record, number, 1, (width - away, width))
            record.end(number, "finished")
        return float(np.mean([abs(math.log10(float(t.params["lr"])) + 2) for t in record.trials[-20:]]))

    for seed in (0, 1):
        assert distance(name, seed) < 0.6 * distance("random", seed)
