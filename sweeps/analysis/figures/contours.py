"""The score by each two hyperparameters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import plotly.graph_objects as go
from optuna.visualization import plot_contour
from plotly.subplots import make_subplots

from sweeps.analysis.figures import style
from sweeps.analysis.figures.search import HEIGHT, by_importance, shown, take_over, with_enough
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count

MOST_CELLS = 100
"""Trials of a contour, which has a cell for each two of them."""
MOST_PAIRED = 3
"""Hyperparameters of which each two have a contour."""
LEAST_POINTS = 30
"""Points of a contour: between fewer of them, a surface is a guess."""


def contour(sweep: Sweep) -> go.Figure:
    """The score by each pair of the most important hyperparameters."""
    title, found = "Score by pairs of hyperparameters", with_enough(sweep, trials=5, hyperparameters=2)
    if isinstance(found, str):
        return style.blank(title, found)
    study = found.study(MOST_CELLS)
    trials = study.get_trials(deepcopy=False)
    known = {name: {trial.params.get(name) for trial in trials} for name in by_importance(found)}
    hyperparameters = [name for name, values in known.items() if len(values - {None}) > 1][:MOST_PAIRED]
    pairs = [
        pair
        for pair in itertools.combinations(hyperparameters, 2)
        if sum(set(pair) <= set(trial.params) for trial in trials) >= 5
    ]
    if not pairs:
        return style.blank(title, "No two hyperparameters were tried together in 5 trials.")
    scored = [(trial.value, trial) for trial in trials if trial.value is not None]
    figure = make_subplots(rows=len(pairs), cols=1, vertical_spacing=0.3 / len(pairs))
    for row, pair in enumerate(pairs, start=1):
        part = plot_contour(study, list(pair), target_name=sweep.record.info.metric)
        scores = [score for score, trial in scored if set(pair) <= set(trial.params)]
        take_over(figure, _without_guesses(part, scores), row, 1)
    ends = [limit(score for score, _ in scored) for limit in (min, max)]
    figure.update_traces(selector={"type": "contour"}, zmin=ends[0], zmax=ends[1], showscale=False)
    figure.update_traces(selector={"type": "scatter"}, marker_cmin=ends[0], marker_cmax=ends[1])
    first_trace = figure.data[0]
    first_trace.update({"showscale": True} if first_trace.type == "contour" else {"marker_showscale": True})
    which = count(len(hyperparameters), "hyperparameter")
    first = "" if found.importances else f"; the first {which} of the space"
    drawn = shown(found, MOST_CELLS, "points")
    caption = f"A point is a trial: {found.words}{drawn}{first}. {_between(figure)}"
    return style.finish(figure, title, caption, height=110 + (HEIGHT + 20) * len(pairs), legend=False)


def _without_guesses(part: go.Figure, scores: Sequence[float]) -> go.Figure:
    """A contour of Optuna's as it is; of too few points the points alone, in the colors of their scores: the
    surface between them would show hills that no trial has seen."""
    surface, points, *_ = part.data
    if len(set(zip(points.x, points.y, strict=True))) >= LEAST_POINTS:
        return part
    looks = {"colorscale": surface.colorscale, "reversescale": surface.reversescale}
    points.marker = {
        "color": scores,
        "size": 10,
        "line": {"width": 1, "color": style.GREY},
        "colorbar": {"title": surface.colorbar.title.text},
        **looks,
    }
    return go.Figure(data=points, layout=part.layout)


def _between(figure: go.Figure) -> str:
    """What a figure of contours shows between points."""
    surfaces = sum(trace.type == "contour" for trace in figure.data)
    colored = sum(trace.type == "scatter" and trace.marker.colorscale is not None for trace in figure.data)
    if not colored:
        return "Between points, scores are interpolated."
    few = f"fewer than {LEAST_POINTS} points"
    if not surfaces:
        return f"The color of a point is its score. Of {few} no surface is drawn."
    return (
        f"Between points, scores are interpolated. With {few} a pair has none, and their color is the score."
    )
