"""Curves, rungs and reruns."""

from __future__ import annotations

from pathlib import Path

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.sweep import Sweep
from tests.support.kinds import add, begun, drawn


def test_curves_are_marked_where_trials_stopped_and_rungs_are_lines(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.learning_curves(sweeps["pruned"])
    ends = {trace.name: list(trace.x) for trace in figure.data if trace.mode == "markers"}
    assert {name: sorted(set(epochs)) for name, epochs in ends.items()} == {
        "finished (4)": [9],
        "pruned (26)": [1, 3],
    }
    assert [shape.x0 for shape in figure.layout.shapes] == [1, 3]
    best = sweeps["pruned"].record.best()
    assert best is not None
    assert f"best: trial {best.number}" in [trace.name for trace in figure.data]


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


def test_a_bar_of_survival_is_all_that_came_so_far(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.rung_survival(sweeps["pruned"])
    rows = {trace.name: list(trace.y) for trace in figure.data}
    assert rows == {
        "continued": [30, 10, 4, 0],
        "pruned": [0, 20, 6, 0],
        "finished": [0, 0, 0, 4],
    }
