"""The score by each two hyperparameters: which are paired, and where a surface is drawn."""

from __future__ import annotations

from pathlib import Path

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.sweep import Sweep
from tests.support.kinds import add, begun, drawn, of_conditions


def test_without_importance_the_first_hyperparameters_of_the_space_are_paired(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for number in range(8):
        params = drawn(number)
        add(record, {name: params[name] for name in ("width", "lr", "momentum")}, 3)
    figure = analysis_figures.contour(analysis_sweep.load(tmp_path))
    titles = figure.layout.xaxis.title.text, figure.layout.yaxis.title.text
    assert titles == ("width", "lr"), "the first two"
    assert "the first 3 hyperparameters of the space" in figure.layout.title.subtitle.text


def test_between_too_few_points_no_surface_is_guessed(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for number in range(29):
        add(record, drawn(number), 3)
    figure = analysis_figures.contour(analysis_sweep.load(tmp_path))
    assert [trace.type for trace in figure.data] == ["scatter"] * 6, "points and a star of each pair"
    by_lr = {trial.params["lr"]: trial.last_score for trial in record.trials}
    of_lr, star = [trace for trace in figure.data if trace.xaxis == "x"]
    best = record.best()
    assert best is not None
    assert list(star.x) == [best.params["lr"]]
    assert dict(zip(of_lr.x, of_lr.marker.color, strict=True)) == by_lr
    assert {trace.marker.coloraxis for trace in figure.data[::2]} == {"coloraxis"}, "of all pairs"
    assert "Of fewer than 30 points no surface is drawn" in figure.layout.title.subtitle.text
    add(record, drawn(29), 3)
    figure = analysis_figures.contour(analysis_sweep.load(tmp_path))
    assert [trace.type for trace in figure.data].count("contour") == 3
    assert "Between points, scores are interpolated." in figure.layout.title.subtitle.text


@of_conditions
def test_a_pair_that_few_trials_have_has_no_surface_beside_those_that_many_have(
    sweeps: dict[str, Sweep],
) -> None:
    """Half of 40 trials have a momentum."""
    figure = analysis_figures.contour(sweeps["conditional"])
    with_surface = {trace.xaxis for trace in figure.data if trace.type == "contour"}
    names = {
        axis.plotly_name.replace("axis", ""): {axis.title.text, other.title.text}
        for axis, other in zip(figure.select_xaxes(), figure.select_yaxes(), strict=True)
    }
    assert any("momentum" in pair for pair in names.values())
    assert {name for name, pair in names.items() if "momentum" not in pair} == with_surface
    assert "Of fewer than 30 points no surface is drawn" in figure.layout.title.subtitle.text
