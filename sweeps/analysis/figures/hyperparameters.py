"""How the score depends on the hyperparameters: importance, the score by each, by pairs and by all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from optuna.visualization import plot_contour, plot_parallel_coordinate, plot_slice
from plotly.subplots import make_subplots

from sweeps.analysis.compared_trials import ComparedTrials, compared_trials, trainables
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count

MOST_LINES, MOST_POINTS = 300, 1000
"""Trials in parallel coordinates, and in a slice."""
MOST_HYPERPARAMETERS = 8
"""Hyperparameters with a slice."""
LETTER = 7
"""Pixels of a letter of an axis' name."""
AXIS = 76
"""Pixels between two parallel axes, at least: twelve of them fit on a page."""
HEIGHT = 220
"""Of a row of figures, in pixels: four rows and their words fit on a printed page."""
MOST_CELLS = 100
"""Trials of a contour, which has a cell for each two of them."""
MOST_PAIRED = 3
"""Hyperparameters of which each two have a contour."""
LEAST_POINTS = 30
"""Points of a contour: between fewer of them, a surface is a guess."""


def parallel_coordinates(sweep: Sweep) -> go.Figure:
    """A line per trial through its score and its hyperparameters."""
    title, found = "Parallel coordinates", _with_enough(sweep, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    figure = plot_parallel_coordinate(found.study(MOST_LINES), target_name=sweep.record.info.metric)
    for note in figure.layout.annotations:
        note.update(font_size=11, bgcolor="rgba(255, 255, 255, 0.7)")
    figure.update_layout(plot_bgcolor="#d6d6d6")  # the palest lines are nearly white
    drawn = _shown(found, MOST_LINES, "lines")
    caption = f"A line is a trial. Its color and the first axis show its score: {found.words}{drawn}."
    width = AXIS * (len(found.tried.ranges) + 1)
    return style.finish(figure, title, caption, height=460, min_width=min(width, 1400))


def slices(sweep: Sweep) -> go.Figure:
    """The score by each hyperparameter, the most important hyperparameters first."""
    title, found = "Score by hyperparameter", _with_enough(sweep, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    hyperparameters = _by_importance(found)[:MOST_HYPERPARAMETERS]
    study = found.study(MOST_POINTS)
    rows = math.ceil(len(hyperparameters) / 2)
    figure = make_subplots(rows=rows, cols=2, vertical_spacing=0.3 / rows)
    for place, hyperparameter in enumerate(hyperparameters):
        row, column = place // 2 + 1, place % 2 + 1
        part = plot_slice(study, [hyperparameter], target_name=sweep.record.info.metric)
        _take_over(figure, part, row, column)
        if column == 2:
            figure.update_yaxes(title_text=None, row=row, col=column)
    for trace in figure.data:
        trace.marker = {"color": style.BLUE, "size": 7, "opacity": 0.55, "line": {"width": 0.5}}
    cut = style.cut(figure, found.scores.values())
    more = ""
    if left_out := len(found.tried.ranges) - len(hyperparameters):
        less = " of less importance" if found.importances and len(trainables(sweep.record)) == 1 else ""
        more = f"; {count(left_out, 'hyperparameter')}{less} left out"
    caption = f"A point is a trial: {found.words}{_shown(found, MOST_POINTS, 'points')}{more}.{cut}"
    width = 2 * (LETTER * max(map(len, hyperparameters)) + 30)  # their names are side by side
    return style.finish(figure, title, caption, height=110 + HEIGHT * rows, min_width=width, legend=False)


def contour(sweep: Sweep) -> go.Figure:
    """The score by each pair of the most important hyperparameters."""
    title, found = "Score by pairs of hyperparameters", _with_enough(sweep, trials=5, hyperparameters=2)
    if isinstance(found, str):
        return style.blank(title, found)
    study = found.study(MOST_CELLS)
    trials = study.get_trials(deepcopy=False)
    known = {name: {trial.params.get(name) for trial in trials} for name in _by_importance(found)}
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
        _take_over(figure, _without_guesses(part, scores), row, 1)
    ends = [limit(score for score, _ in scored) for limit in (min, max)]
    figure.update_traces(selector={"type": "contour"}, zmin=ends[0], zmax=ends[1], showscale=False)
    figure.update_traces(selector={"type": "scatter"}, marker_cmin=ends[0], marker_cmax=ends[1])
    first_trace = figure.data[0]
    first_trace.update({"showscale": True} if first_trace.type == "contour" else {"marker_showscale": True})
    which = count(len(hyperparameters), "hyperparameter")
    first = "" if found.importances else f"; the first {which} of the space"
    drawn = _shown(found, MOST_CELLS, "points")
    caption = f"A point is a trial: {found.words}{drawn}{first}. {_between(figure)}"
    return style.finish(figure, title, caption, height=110 + (HEIGHT + 20) * len(pairs), legend=False)


def importance(sweep: Sweep) -> go.Figure:
    """How much each hyperparameter decided whether a trial was among the best.

    As in `ComparedTrials.importances`, not by `plot_param_importances`, which would evaluate them once more.
    """
    title = "Hyperparameter importance"
    found: dict[str, ComparedTrials] = {}
    whys: dict[str, str] = {}
    for name in trainables(sweep.record):  # each is compared at an epoch of its own
        at = compared_trials(sweep.record, name)
        if why := at.why_no_importance:
            whys[name] = why if at.epoch else _no_score(sweep)
        else:
            found[name] = at
    missing = " ".join(f"{name}: {why[0].lower()}{why[1:]}" for name, why in whys.items())
    if not found:
        return style.blank(title, missing if len(whys) > 1 else next(iter(whys.values()), style.NO_EPOCH))
    bars = [(at, name, share) for at in found.values() for name, share in at.importances.items()][::-1]
    labels = [_with_trials(at, name) for at, name, _ in bars]
    bar = go.Bar(
        x=[100 * share for _, _, share in bars],
        y=labels,
        orientation="h",
        text=[at.percent(name) for at, name, _ in bars],
        textposition="outside",
        cliponaxis=False,
        marker={"color": style.BLUE},
    )
    figure = go.Figure(bar)
    most = 150 * max(share for _, _, share in bars)  # room for the words behind a bar, on a telephone too
    figure.update_xaxes(title_text="importance, %", range=[0, most], tickvals=list(range(0, 101, 20)))
    figure.update_yaxes(type="category")
    caption = _importance_caption(found, missing)
    if labels != [name for _, name, _ in bars]:
        caption += " In brackets: how many trials had a hyperparameter that not all have."
    return style.finish(figure, title, caption, height=150 + 34 * len(bars), legend=False)


def _importance_caption(found: Mapping[str, ComparedTrials], missing: str) -> str:
    """What the bars show, of each trainable; `missing` says of which they show nothing."""
    decided = "How much each hyperparameter decided whether a trial is among the best"
    best = [f"{100 * at.top:.0f} % (PED-ANOVA), by {at.words}." for at in found.values()]
    if len(best) == 1 and not missing:
        return f"{decided} {best[0]}"
    each = [f"{name}: the best {share}" for name, share in zip(found, best, strict=True)]
    return " ".join([f"{decided} of its trainable.", *each, missing]).rstrip()


def _with_trials(at: ComparedTrials, hyperparameter: str) -> str:
    """A hyperparameter, and of one that not all trials of its trainable had, how many had it: of few, its
    importance is next to nothing whatever it does."""
    had = sum(hyperparameter in at.tried.params[number] for number in at.scores)
    return hyperparameter if had == len(at.scores) else f"{hyperparameter} ({count(had, 'trial')})"


def _by_importance(found: ComparedTrials) -> list[str]:
    """Hyperparameters that trials at this epoch have, by importance where that is known; else as in the
    space."""
    there = dict.fromkeys(name for number in found.scores for name in found.tried.params[number])
    hyperparameters = [name for name in there if name in found.tried.ranges]
    return sorted(hyperparameters, key=lambda name: -found.importances.get(name, 0.0))


def _take_over(figure: go.Figure, part: go.Figure, row: int, column: int) -> None:
    """Put a figure of Optuna's, which has one pair of axes, into a subplot."""
    for trace in part.data:
        figure.add_trace(trace, row=row, col=column)
    kept = ("title", "type", "range", "categoryorder", "categoryarray")
    for axis, update in (("xaxis", figure.update_xaxes), ("yaxis", figure.update_yaxes)):
        given: dict[str, Any] = part.layout[axis].to_plotly_json()
        update(row=row, col=column, **{name: given[name] for name in kept if name in given})
        if given.get("type") == "log":
            ends = [v for t in part.data for v in (t[axis[0]] if t[axis[0]] is not None else ()) if v]
            update(row=row, col=column, **style.log_ticks(ends))
        elif given.get("type") == "category" and given.get("categoryarray"):
            names = [str(name) for name in given["categoryarray"]]
            update(
                row=row,
                col=column,
                range=[-0.5, len(names) - 0.5],
                tickvals=names,
                ticktext=[name.strip("'") for name in names],
            )


def _shown(found: ComparedTrials, most: int, what: str) -> str:
    """`; 300 lines of 1,000 are drawn`, where not all are."""
    return f"; {most} {what} of {len(found.scores):,} are drawn" if len(found.scores) > most else ""


def _no_score(sweep: Sweep) -> str:
    return "No trial with a score ended well." if sweep.record.has_epochs else style.NO_EPOCH


def _with_enough(sweep: Sweep, trials: int, hyperparameters: int) -> ComparedTrials | str:
    """The trials at one epoch, or why a figure that needs so many trials and hyperparameters is blank."""
    found = compared_trials(sweep.record)
    if not found.epoch:
        return _no_score(sweep)
    if len(found.scores) < trials:
        return f"{count(len(found.scores), 'trial')} with a score; this needs {trials}."
    if len(found.tried.ranges) < hyperparameters:
        which = "Only one hyperparameter" if found.tried.ranges else "No hyperparameter"
        return f"{which} was varied; this needs {count(hyperparameters, 'hyperparameter')}."
    return found


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
