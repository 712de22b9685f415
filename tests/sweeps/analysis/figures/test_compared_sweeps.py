"""Several sweeps or trials in one figure, and one trial beside the leaders."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.analysis.figures import style
from sweeps.analysis.figures.learning_curves import best_of_each, curves_of_each, trial_curves
from sweeps.analysis.figures.parallel_coordinates import hyperparameters_of_each, hyperparameters_of_trials
from sweeps.analysis.sweep import Sweep
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.kinds import KINDS


def recorded(folder: Path, metric: str, lrs: list[float]) -> Record:
    """A sweep with a trial for each of these, which is its score in the second of two epochs."""
    folder.mkdir()
    record = Record.create(folder, folder.name, "max", {"metric": metric, "trainable": "toy"})
    for number, lr in enumerate(lrs):
        propose(record, {"lr": lr, "width": 8 * (number + 1)})
        for epoch, score in enumerate((0.0, lr), start=1):
            record.report(number, epoch, score, {metric: score}, 1.0)
        record.end(number, "finished")
    return record


@pytest.fixture
def records(tmp_path: Path) -> dict[str, Record]:
    return {
        name: recorded(tmp_path / name, "acc", lrs)
        for name, lrs in {"a": [0.1, 0.3, 0.2], "b": [0.5, 0.4]}.items()
    }


def test_each_sweep_is_a_line_by_trials_epochs_and_hours(records: dict[str, Record]) -> None:
    figure = best_of_each(records)
    assert [trace.name for trace in figure.data] == ["a", "b"] * 3
    by_trials, *_ = figure.data
    assert list(zip(by_trials.x, by_trials.y, strict=True)) == [(1, 0.1), (2, 0.3), (3, 0.3)]


def test_each_trial_is_a_line_through_its_score_and_hyperparameters(records: dict[str, Record]) -> None:
    figure = hyperparameters_of_each(records)
    lines = {trace.name: [y for y in trace.y if y is not None] for trace in figure.data}
    assert {name: len(points) for name, points in lines.items()} == {"a": 9, "b": 6}
    assert figure.layout.xaxis.ticktext == ("acc", "lr", "width")
    assert max(lines["b"]) == 1.0
    assert min(lines["a"]) == 0.0


def test_trials_of_several_sweeps_are_drawn_together(records: dict[str, Record]) -> None:
    trials = [(f"{name} 0", record, record.trials[0]) for name, record in records.items()]
    curves = curves_of_each(trials)
    assert [(trace.name, list(trace.y)) for trace in curves.data] == [
        ("a 0", [0.0, 0.1]),
        ("b 0", [0.0, 0.5]),
    ]
    assert len(hyperparameters_of_trials(trials).data) == 2


def test_scores_of_different_objectives_are_not_compared(records: dict[str, Record], tmp_path: Path) -> None:
    records["c"] = recorded(tmp_path / "c", "loss", [0.1])
    for figure in (best_of_each, hyperparameters_of_each):
        assert "different objectives: acc (max), loss (max)" in style.why_blank(figure(records))


def test_a_trial_of_one_epoch_is_a_point(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "trainable": "toy"})
    propose(record, {"lr": 0.1})
    record.report(0, 1, 0.5, {"acc": 0.5}, 1.0)
    (curve,) = [trace for trace in trial_curves(record, 0).data if trace.name == "trial 0"]
    assert (curve.mode, list(curve.x), list(curve.y)) == ("lines+markers", [1], [0.5])


@pytest.mark.parametrize("kind", KINDS)
def test_any_trial_of_any_sweep_stands_beside_the_leaders(kind: str, sweeps: dict[str, Sweep]) -> None:
    record = sweeps[kind].record
    for trial in record.trials:
        figure = trial_curves(record, trial.number)
        assert bool(style.why_blank(figure)) is not bool(trial.epochs)
        if trial.epochs:
            assert f"trial {trial.number}" in {trace.name for trace in figure.data}
