"""What the figures have in common: axes, ticks and marks."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep


def test_a_log_axis_has_ticks_at_powers_of_ten_alone(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.slices(sweeps["pruned"])
    (axis,) = [axis for axis in figure.select_xaxes() if axis.title.text == "lr"]
    assert (axis.dtick, axis.tick0) == (2, -3), "of 1e-3, 1e-2, 1e-1 and 1 each second one"
    assert style.log_ticks([0.02, 0.3]) == {"nticks": style.LOG_TICKS}, "one power of ten is no scale"


def test_statuses_differ_by_more_than_their_colour() -> None:
    for of in ("color", "symbol", "dash", "pattern"):
        assert len({getattr(mark, of) for mark in style.MARKS.values()}) == len(style.MARKS)


def test_an_axis_ends_before_what_lies_far_out() -> None:
    figure = go.Figure()
    assert style.cut(figure, [0.9, 0.91, 0.92, 0.1, 0.93, 5.0]) == ""
    assert figure.layout.yaxis.range is None
    assert "0.9 to 0.93" in style.cut(figure, [0.9, 0.91, 0.92, 1e9, 0.93, math.nan])
    assert figure.layout.yaxis.range[1] < 1
