"""What the figures have in common: axes, ticks and marks."""

from __future__ import annotations

import math

import plotly.graph_objects as go
import pytest

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.objective import Objective


def test_a_log_axis_has_ticks_at_powers_of_ten_alone(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.slices(sweeps["pruned"])
    (axis,) = [axis for axis in figure.select_xaxes() if axis.title.text == "lr"]
    assert (axis.dtick, axis.tick0) == (2, -3), "of 1e-3, 1e-2, 1e-1 and 1 each second one"
    assert style.log_ticks([0.02, 0.3]) == {"nticks": style.LOG_TICKS}, "one power of ten is no scale"


def test_statuses_differ_by_more_than_their_colour() -> None:
    for of in ("color", "symbol", "dash", "pattern"):
        assert len({getattr(mark, of) for mark in style.MARKS.values()}) == len(style.MARKS)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_an_axis_ends_behind_the_trials_that_matter(mode: str) -> None:
    objective = Objective("m", mode)
    good = [0.9 * objective.sign + 0.01 * place for place in range(-4, 5)]
    figure = go.Figure()
    assert style.cut(figure, objective, good, good) == ""
    assert figure.layout.yaxis.range is None
    bad = -100 * objective.sign
    told = style.cut(figure, objective, [*good, bad, math.nan], [*good, bad])
    low, high = figure.layout.yaxis.range
    assert all(low < score < high for score in good)
    assert not low < bad < high
    assert "with 1 of 10 trials beyond it" in told
    unfinished = [each / 100 for each in range(30)]
    assert style.cut(go.Figure(), objective, [], unfinished) == "", "no trial has ended"
    assert style.cut(go.Figure(), objective, [0.5] * 9, [0.5] * 9) == "", "all alike"
    assert style.cut(go.Figure(), objective, [0.5] * 9 + [bad], [0.5] * 9 + [bad]) == "", "most alike"
