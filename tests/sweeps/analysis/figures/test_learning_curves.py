"""Curves, rungs and reruns."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.sweep import Sweep
from tests.conftest import propose
from tests.support.kinds import add, begun, drawn


def test_curves_are_marked_where_trials_stopped_and_rungs_are_lines(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.learning_curves(sweeps["pruned"])
    ends = {trace.name: list(trace.x) for trace in figure.data if trace.mode == "markers"}
    best = sweeps["pruned"].record.best()
    assert best is not None
    assert ends.pop(f"best: trial {best.number}") == [best.best_epoch(sweeps["pruned"].record.objective)]
    assert {name: sorted(set(epochs)) for name, epochs in ends.items()} == {
        "finished (4)": [9],
        "pruned (26)": [1, 3],
    }
    assert [shape.x0 for shape in figure.layout.shapes] == [1, 3]


def test_of_many_curves_the_best_and_some_others_are_drawn_and_that_is_said(tmp_path: Path) -> None:
    record = begun(tmp_path)
    with record.together():
        for number in range(220):
            add(record, drawn(number), 1, "pruned")
    figure = analysis_figures.learning_curves(analysis_sweep.load(tmp_path))
    assert "200 of 220 trials are drawn" in figure.layout.title.subtitle.text
    best = record.best()
    assert best is not None
    assert any(f"best: trial {best.number}" == trace.name for trace in figure.data)


def test_of_many_trials_the_history_draws_some_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[analysis_figures.history.__module__], "MOST_POINTS", 40)
    record = begun(tmp_path)
    with record.together():
        for number in range(100):
            add(record, drawn(number), 1, "pruned")
    figure = analysis_figures.history(analysis_sweep.load(tmp_path))
    assert "40 of 100 are drawn" in figure.layout.title.subtitle.text
    marks = next(trace for trace in figure.data if trace.name == "pruned")
    line = next(trace for trace in figure.data if trace.name == "best so far")
    best = record.best()
    assert best is not None
    assert (len(marks.x), max(marks.y), max(line.y)) == (40, *2 * (best.best_score(record.objective),))


def test_other_metrics_have_a_panel_each_and_the_best_trial_is_heavy(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for number in range(3):
        propose(record, {"lr": 0.1})
        for epoch in (1, 2):
            metrics = {"acc": 0.1, "train_loss": 2.0 / epoch, "val_loss": 1.0 + number}
            record.report(number, epoch, 0.1 * (number + epoch), metrics, 1.0)
        record.end(number, "finished")
    figure = analysis_figures.metrics(analysis_sweep.load(tmp_path))
    assert [axis.title.text for axis in figure.select_yaxes()] == ["train_loss", "val_loss"]
    heavy = [(list(trace.x), list(trace.y)) for trace in figure.data if trace.line.width > 2]
    assert heavy == [([1, 2], [2.0, 1.0]), ([1, 2], [3.0, 3.0])]
    assert "trial 2, the best" in figure.layout.title.subtitle.text


def test_a_point_tells_trial_status_epoch_score_and_hyperparameters(sweeps: dict[str, Sweep]) -> None:
    best = sweeps["pruned"].record.best()
    assert best is not None
    for figure in (analysis_figures.history, analysis_figures.slices, analysis_figures.contour):
        stars = [
            trace
            for trace in figure(sweeps["pruned"]).select_traces("scatter")
            if trace.marker.symbol == "star"
        ]
        assert stars
        for star in stars:
            (told,) = star.customdata
            assert told[0] == f"trial {best.number}, {best.status}"
            assert told[1].startswith("epoch ")
            assert told[1].split(": ")[1].startswith("acc 0.")
            assert "lr 0.0" in told[2]
            assert all(f"%{{customdata[{place}]}}" in star.hovertemplate for place in range(3))
