"""What the search found: the best score over time, and how it depends on the hyperparameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from optuna.visualization import plot_parallel_coordinate, plot_slice
from plotly.subplots import make_subplots

from sweeps.analysis.compared_trials import ComparedTrials, compared_trials, is_bad, trainables
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.common.objective import Objective
from sweeps.record.trials import TrialRow

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


def history(sweep: Sweep) -> go.Figure:
    """The best score so far, by trials that ended and by epochs trained."""
    metric, objective = sweep.record.info.metric, sweep.record.objective
    title = f"Best {metric} so far"
    if not any(trial.best_score(objective) is not None for trial in sweep.record.searched):
        return style.blank(title, style.NO_EPOCH)
    figure = make_subplots(rows=2, cols=1, vertical_spacing=0.2)
    ended = sorted((t for t in sweep.record.searched if t.end is not None), key=lambda t: (t.end, t.number))
    _add_ended(figure, objective, ended)
    figure.add_trace(_steps("best so far, of all epochs", *_by_epochs(sweep), "dash"), row=2, col=1)
    figure.update_xaxes(title_text="trials ended", row=1, col=1)
    figure.update_xaxes(title_text="epochs trained, sum of all trials", row=2, col=1)
    figure.update_yaxes(title_text=metric)
    caption = "Top: the score of the best epoch of each trial. Bottom: the best score by epochs trained."
    caption += style.cut(figure, (point for trace in figure.data for point in trace.y))
    return style.finish(figure, title, caption, height=640)


def parallel_coordinates(sweep: Sweep) -> go.Figure:
    """A line per trial through its score and its hyperparameters."""
    title, found = "Parallel coordinates", with_enough(sweep, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    figure = plot_parallel_coordinate(found.study(MOST_LINES), target_name=sweep.record.info.metric)
    for note in figure.layout.annotations:
        note.update(font_size=11, bgcolor="rgba(255, 255, 255, 0.7)")
    figure.update_layout(plot_bgcolor="#d6d6d6")  # the palest lines are nearly white
    drawn = shown(found, MOST_LINES, "lines")
    caption = f"A line is a trial. Its color and the first axis show its score: {found.words}{drawn}."
    width = AXIS * (len(found.tried.ranges) + 1)
    return style.finish(figure, title, caption, height=460, min_width=min(width, 1400))


def slices(sweep: Sweep) -> go.Figure:
    """The score by each hyperparameter, the most important hyperparameters first."""
    title, found = "Score by hyperparameter", with_enough(sweep, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    hyperparameters = by_importance(found)[:MOST_HYPERPARAMETERS]
    study = found.study(MOST_POINTS)
    rows = math.ceil(len(hyperparameters) / 2)
    figure = make_subplots(rows=rows, cols=2, vertical_spacing=0.3 / rows)
    for place, hyperparameter in enumerate(hyperparameters):
        row, column = place // 2 + 1, place % 2 + 1
        part = plot_slice(study, [hyperparameter], target_name=sweep.record.info.metric)
        take_over(figure, part, row, column)
        if column == 2:
            figure.update_yaxes(title_text=None, row=row, col=column)
    for trace in figure.data:
        trace.marker = {"color": style.BLUE, "size": 7, "opacity": 0.55, "line": {"width": 0.5}}
    cut = style.cut(figure, found.scores.values())
    more = ""
    if left_out := len(found.tried.ranges) - len(hyperparameters):
        less = " of less importance" if found.importances and len(trainables(sweep.record)) == 1 else ""
        more = f"; {count(left_out, 'hyperparameter')}{less} left out"
    caption = f"A point is a trial: {found.words}{shown(found, MOST_POINTS, 'points')}{more}.{cut}"
    width = 2 * (LETTER * max(map(len, hyperparameters)) + 30)  # their names are side by side
    return style.finish(figure, title, caption, height=110 + HEIGHT * rows, min_width=width, legend=False)


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


def by_importance(found: ComparedTrials) -> list[str]:
    """Hyperparameters that trials at this epoch have, by importance where that is known; else as in the
    space."""
    there = dict.fromkeys(name for number in found.scores for name in found.tried.params[number])
    hyperparameters = [name for name in there if name in found.tried.ranges]
    return sorted(hyperparameters, key=lambda name: -found.importances.get(name, 0.0))


def _add_ended(figure: go.Figure, objective: Objective, ended: Sequence[TrialRow]) -> None:
    scored = [(place, trial, trial.best_score(objective)) for place, trial in enumerate(ended, start=1)]
    points = [(place, trial, score) for place, trial, score in scored if score is not None]
    for status, mark in style.MARKS.items():
        if of_status := [point for point in points if point[1].status == status]:
            places, trials, scores = zip(*of_status, strict=True)
            hover = [f"trial {trial.number}" for trial in trials]
            marks = {"mode": "markers", "name": status, "marker": mark.points(8)}
            figure.add_trace(go.Scatter(x=places, y=scores, text=hover, **marks), row=1, col=1)
    well = [(place, score) for place, trial, score in points if not is_bad(trial)]
    if well:
        best = itertools.accumulate((score for _, score in well), _better_of(objective))
        figure.add_trace(
            _steps("best so far", [place for place, _ in well], list(best), "solid"), row=1, col=1
        )


def _by_epochs(sweep: Sweep) -> tuple[list[int], list[float]]:
    """Epochs trained by all trials until the best score rose, and that score."""
    reports = sorted(
        (row.time, math.nan if is_bad(trial) else row.score)
        for trial in sweep.record.searched
        for row in trial.epochs.values()
    )
    scores = (score for _, score in reports)
    best = list(itertools.accumulate(scores, _better_of(sweep.record.objective), initial=math.nan))
    rises = [n for n in range(1, len(best)) if math.isfinite(best[n]) and best[n] != best[n - 1]]
    ends = [*rises, len(reports)] if rises else []
    return ends, [best[n] for n in ends]


def _better_of(objective: Objective) -> Callable[[float, float], float]:
    return lambda best, score: score if objective.is_better(score, best) else best


def _steps(name: str, x: Sequence[float], y: Sequence[float], dash: str) -> go.Scatter:
    line = {"shape": "hv", "color": style.BLACK, "width": 2.5, "dash": dash}
    return go.Scatter(x=x, y=y, mode="lines", name=name, line=line)


def take_over(figure: go.Figure, part: go.Figure, row: int, column: int) -> None:
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


def shown(found: ComparedTrials, most: int, what: str) -> str:
    """`; 300 lines of 1,000 are drawn`, where not all are."""
    return f"; {most} {what} of {len(found.scores):,} are drawn" if len(found.scores) > most else ""


def _no_score(sweep: Sweep) -> str:
    return "No trial with a score ended well." if sweep.record.has_epochs else style.NO_EPOCH


def with_enough(sweep: Sweep, trials: int, hyperparameters: int) -> ComparedTrials | str:
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
