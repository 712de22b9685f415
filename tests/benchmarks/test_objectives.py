"""The benchmark of fronts: its hypervolume, its arms, its arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _measure, objectives
from benchmarks._problems import FashionCnn, Lcbench
from benchmarks.objectives import RANDOM, RIVAL, Run, Weighed, hypervolume, summary


def test_the_hypervolume_is_the_share_of_the_square_that_a_front_dominates() -> None:
    assert hypervolume([]) == hypervolume([(1.0, 0.2), (0.3, 1.5)]) == 0.0
    assert hypervolume([(0.5, 0.5)]) == 0.25
    assert hypervolume([(-0.1, 0.0)]) == 1.0
    corners = np.random.default_rng(0).random((20, 2)) * 1.2
    points = np.random.default_rng(1).random((40_000, 2))
    inside = (corners[None] <= points[:, None]).all(axis=2).any(axis=1).mean()
    assert hypervolume([tuple(each) for each in corners]) == pytest.approx(inside, abs=0.01)


def test_a_second_objective_is_the_same_in_all_epochs_and_within_its_ends() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra bench: pip install -e '.[bench]'")
    shares = dict.fromkeys(("momentum", "max_dropout", "weight_decay"), 0.1)
    sizes = {"batch_size": 64, "learning_rate": 0.01, "num_layers": 3, "max_units": 256}
    positions = dict.fromkeys(("dropout", "width", "batch_size", "momentum", "lr"), 0)
    for problem, params in (
        (Weighed(FashionCnn(0)), positions),
        (Weighed(Lcbench("7593")), {**shares, **sizes}),
    ):
        curve = problem.curve({**problem.params, **params})
        cost = problem.corner(max(curve.scores), curve.others["cost"])[1]
        assert 0 <= cost <= 1


def test_arms_are_compared_on_the_same_problem_and_seed() -> None:
    means = {RANDOM: 10.0, "tpe+asha": 14.0}
    runs = [Run(arm, "p", seed, 160, mean + seed) for arm, mean in means.items() for seed in range(3)]
    row = summary(runs)["160"]["tpe+asha"]
    assert row["percent"][0] == pytest.approx(15.0)
    assert row["ahead_of_random"] == pytest.approx([4.0, 4.0, 4.0])
    assert "ahead_of_optuna" not in row


@pytest.mark.long
def test_the_arms_run_and_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(_measure.RESULTS, str(tmp_path))
    arms = [RANDOM, objectives.DEFAULT, RIVAL]
    asked = ["--every", "20", "--repeats", "1", "--budgets", "160", "--processes", "1", "--arms", *arms]
    assert objectives.main(asked) == 0
    found = json.loads((tmp_path / "objectives.json").read_text())
    assert set(found["summary"]["160"]) == set(arms)
    assert "front_160_ahead_of_random" in capsys.readouterr().out
