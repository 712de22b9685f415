"""Random search."""

from __future__ import annotations

from pathlib import Path

from ray import tune

from tests.sweeps.searchers.play import Play


def test_random_search_takes_a_sample_from_that_reads_another_hyperparameter(tmp_path: Path) -> None:
    space = {"width": tune.randint(1, 99), "lr": tune.sample_from(lambda config: config["width"] / 100)}
    for params in Play("random", tmp_path, space).run(5):
        assert params["lr"] == float(params["width"]) / 100
