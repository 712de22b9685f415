"""The trials by two objectives each: the front, the trials that it dominates, and the knee."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.record.record import Record
from sweeps.record.trials import ENDED_WELL

HEIGHT = 290
"""Pixels of a pair of objectives."""
MARGIN = 0.05
"""Of an axis beside the outermost points, as a share of what is between them."""
_Points = dict[int, tuple[float, ...]]
"""Number of a trial to its value of each objective."""


def front(sweep: Sweep) -> go.Figure:
    """A point per trial that ended well, for each two objectives; with two the front is a line."""
    title, record = "Pareto front", sweep.record
    if not record.objectives.are_several:
        return style.blank(title, "The sweep has one objective.")
    on_front = record.front_values()
    if not on_front:
        return style.blank(title, "No trial has ended well.")
    ended = (trial for trial in record.searched if trial.status in ENDED_WELL)
    every = [values for trial in ended if (values := trial.values(record.objectives)) is not None]
    pairs = list(itertools.combinations(range(len(record.objectives.every)), 2))
    figure = make_subplots(rows=len(pairs), cols=1, vertical_spacing=0.2 / len(pairs))
    for row, (vertical, across) in enumerate(pairs, start=1):
        for trace in _traces(record, on_front, across, vertical, is_line=len(pairs) == 1):
            trace.showlegend = row == 1
            figure.add_trace(trace, row=row, col=1)
        first, second = (record.objectives.every[place] for place in (vertical, across))
        figure.update_yaxes(title_text=f"{first.metric} ({first.mode})", row=row, col=1)
        figure.update_xaxes(title_text=f"{second.metric} ({second.mode})", row=row, col=1)
        figure.update_xaxes(range=_around(on_front, every, across), row=row, col=1)
        figure.update_yaxes(range=_around(on_front, every, vertical), row=row, col=1)
    caption = (
        "A point is a trial, by the metrics of its best epoch. No trial is better than one of the front in "
        "one objective and not worse in another. The knee is the best compromise on it. The axes show the "
        "front and what is near it: a double click shows all trials."
    )
    if any(trial.scores for trial in record.confirmed()):
        caption += " The front is that of the means of the reruns."
    return style.finish(figure, title, caption, height=110 + HEIGHT * len(pairs))


def _around(on_front: _Points, every: Sequence[tuple[float, ...]], place: int) -> list[float] | None:
    """The ends of an axis that shows the front, and the trials up to its range away; None where the front is
    at one value."""
    values = [each[place] for each in on_front.values()]
    low, high = min(values), max(values)
    if low == high:
        return None
    near = [each[place] for each in every if 2 * low - high <= each[place] <= 2 * high - low]
    low, high = min(low, *near), max(high, *near)
    return [low - MARGIN * (high - low), high + MARGIN * (high - low)]


def _traces(record: Record, on_front: _Points, across: int, vertical: int, is_line: bool) -> list[go.Scatter]:
    """The dominated trials by status, the front, the knee."""
    traces = []
    for status in ENDED_WELL:
        rows = [t for t in record.searched if t.status == status and t.number not in on_front]
        found = {row.number: values for row in rows if (values := row.values(record.objectives)) is not None}
        if found:
            marker = {**style.MARKS[status].points(7), "opacity": 0.6}
            traces.append(_scatter(f"dominated, {status}", found, across, vertical, marker=marker))
    in_order = dict(sorted(on_front.items(), key=lambda each: each[1][across]))
    line = {"mode": "lines+markers", "line": {"color": style.BLACK, "width": 2, "shape": "linear"}}
    look = {"color": style.BLACK, "symbol": "circle", "size": 9}
    traces.append(_scatter("front", in_order, across, vertical, marker=look, **(line if is_line else {})))
    knee = dict([next(iter(on_front.items()))])
    star = {"color": style.VERMILLION, "symbol": "star", "size": 17}
    words = {"mode": "markers+text", "textposition": "bottom left", "cliponaxis": False}
    traces.append(_scatter("knee", knee, across, vertical, marker=star, **words))
    return traces


def _scatter(name: str, points: _Points, across: int, vertical: int, **look: Any) -> go.Scatter:
    values: Sequence[tuple[float, ...]] = list(points.values())
    return go.Scatter(
        x=[each[across] for each in values],
        y=[each[vertical] for each in values],
        text=[f"trial {number}" for number in points],
        name=name,
        **{"mode": "markers", **look},
    )
