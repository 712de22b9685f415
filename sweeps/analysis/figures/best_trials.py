"""The best trials: the front of several objectives, and their spread over seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.record.record import Record
from sweeps.record.trials import ENDED_WELL

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
    figure, places = style.grid(len(pairs), columns=1, height=290, spacing=0.2)
    for at, (vertical, across) in zip(places, pairs, strict=True):
        for trace in _traces(record, on_front, across, vertical, is_line=len(pairs) == 1):
            trace.showlegend = at is places[0]
            figure.add_trace(trace, **at)
        first, second = (record.objectives.every[place] for place in (vertical, across))
        y_range, x_range = (_around(on_front, every, place) for place in (vertical, across))
        figure.update_yaxes(title_text=f"{first.metric} ({first.mode})", range=y_range, **at)
        figure.update_xaxes(title_text=f"{second.metric} ({second.mode})", range=x_range, **at)
    caption = (
        "A point is a trial, by the metrics of its best epoch. No trial is better than one of the front in "
        "one objective and not worse in another. The knee is the best compromise on it. The axes show the "
        "front and what is near it: a double click shows all trials."
    )
    if record.confirmed_with_score():
        caption += " The front is that of the means of the reruns."
    return style.finish(figure, title, caption)


def _around(on_front: _Points, every: Sequence[tuple[float, ...]], place: int) -> list[float] | None:
    """The ends of an axis that shows the front, and the trials up to its range away; None where the front is
    at one value."""
    values = [each[place] for each in on_front.values()]
    low, high = min(values), max(values)
    if low == high:
        return None
    near = [each[place] for each in every if 2 * low - high <= each[place] <= 2 * high - low]
    low, high = min(low, *near), max(high, *near)
    beside = 0.05 * (high - low)
    return [low - beside, high + beside]


def _traces(record: Record, on_front: _Points, across: int, vertical: int, is_line: bool) -> list[go.Scatter]:
    """The dominated trials by status, the front, the knee."""
    traces = []
    for ended in ENDED_WELL:
        rows = [t for t in record.searched if t.status == ended and t.number not in on_front]
        found = {row.number: values for row in rows if (values := row.values(record.objectives)) is not None}
        if found:
            marker = {**style.MARKS[ended].points(7), "opacity": 0.6}
            traces.append(_scatter(record, f"dominated, {ended}", found, across, vertical, marker=marker))
    in_order = dict(sorted(on_front.items(), key=lambda each: each[1][across]))
    line = {"mode": "lines+markers", "line": {"color": style.BLACK, "width": 2, "shape": "linear"}}
    look = {"color": style.BLACK, "symbol": "circle", "size": 9}
    traces.append(
        _scatter(record, "front", in_order, across, vertical, marker=look, **(line if is_line else {}))
    )
    number, values = next(iter(on_front.items()))
    knee = record.trials[number]
    traces.append(style.star(record, knee, values[across], values[vertical], name=f"knee: trial {number}"))
    return traces


def _scatter(
    record: Record, name: str, points: _Points, across: int, vertical: int, **look: Any
) -> go.Scatter:
    values: Sequence[tuple[float, ...]] = list(points.values())
    return go.Scatter(
        x=[each[across] for each in values],
        y=[each[vertical] for each in values],
        name=name,
        **{"mode": "markers", **style.hover(record, [record.trials[number] for number in points]), **look},
    )


def seeds(sweep: Sweep) -> go.Figure:
    """How much the score depends on the seed: trials that were rerun, a point per seed."""
    title, record = "Spread over seeds", sweep.record
    found = record.confirmed() or record.confirmed_so_far()
    shown = [trial for trial in found if trial.scores]
    if not shown:
        why = "No rerun has ended well." if record.rerun_trials else "No trial was rerun with another seed."
        return style.blank(title, why)
    names = {trial.number: f"trial {trial.number}" for trial in shown}
    reruns = [rerun for number in names for rerun in record.reruns_of(number) if rerun.status == "finished"]
    ring = {"color": style.SKY, "symbol": "circle-open", "size": 10, "line": {"width": 2}}
    points = go.Scatter(
        x=[names[rerun.confirms] for rerun in reruns if rerun.confirms is not None],
        y=[rerun.best_score(record.objective) for rerun in reruns],
        name="rerun",
        marker=ring,
        **style.hover(record, reruns),
    )
    means = go.Scatter(
        x=list(names.values()),
        y=[trial.mean for trial in shown],
        error_y={"array": [trial.std or 0.0 for trial in shown]},
        name="mean and standard deviation",
        marker={"color": style.BLACK, "symbol": "diamond", "size": 10},
    )
    search = go.Scatter(
        x=list(names.values()),
        y=[record.trials[number].best_score(record.objective) for number in names],
        name="in the search",
        marker={"color": style.ORANGE, "symbol": "star", "size": 11},
        **style.hover(record, [record.trials[number] for number in names]),
    )
    figure = go.Figure([points, means, search]).update_traces(mode="markers")
    figure.update_xaxes(type="category")
    figure.update_yaxes(title_text=record.objective.metric)
    caption = "Each point is the best epoch of a run. The mean leaves out the score of the search, which was "
    caption += "selected for being high."
    if failures := sum(trial.failures for trial in found):
        caption += f" {count(failures, 'rerun')} failed or diverged."
    return style.finish(figure, title, caption)
