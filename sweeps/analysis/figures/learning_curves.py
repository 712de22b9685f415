"""Learning curves, how many trials each rung pruned, and the best score over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sweeps.analysis.compared_trials import is_bad, thinned
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.objective import Objective
from sweeps.record.trials import TrialRow

MOST_CURVES = 200


def rungs(sweep: Sweep) -> list[int]:
    """Epochs at which trials were pruned; the most common ones where there are many."""
    pruned = Counter(max(t.epochs) for t in sweep.record.searched if t.status == "pruned" and t.epochs)
    return sorted(epoch for epoch, _ in pruned.most_common(10))


def learning_curves(sweep: Sweep) -> go.Figure:
    """The score of each trial over its epochs, and where it ended; rungs as lines, the best one heavy."""
    metric = sweep.record.objective.metric
    title = f"Learning curves: {metric}"
    trials = [trial for trial in sweep.record.searched if trial.epochs]
    if not trials:
        return style.blank(title, style.NO_EPOCH)
    places = {number: place for place, number in enumerate(sweep.record.leaders(MOST_CURVES))}
    shown = thinned(sorted(trials, key=lambda trial: places.get(trial.number, math.inf)), MOST_CURVES)
    figure = go.Figure()
    for status in style.MARKS:
        if of_status := [trial for trial in shown if trial.status == status]:
            _add_curves(figure, of_status)
    if (best := sweep.record.best()) is not None:
        _add_best(figure, best, sweep.record.objective)
    for epoch in rungs(sweep):
        figure.add_vline(epoch, line={"color": style.GREY, "dash": "dot", "width": 1})
        figure.add_annotation(
            x=epoch, y=1, yref="paper", yanchor="bottom", text=f"rung {epoch}", showarrow=False, font_size=11
        )
    last = max(max(trial.epochs) for trial in shown)
    figure.update_xaxes(title_text="epoch", rangemode="tozero", dtick=1 if last <= 12 else None)
    figure.update_yaxes(title_text=metric)
    caption = "A curve is a trial. The mark at its end shows its status."
    caption += style.cut(figure, (row.score for trial in shown for row in trial.epochs.values()))
    if len(shown) < len(trials):
        caption += (
            f" {len(shown)} of {len(trials):,} trials are drawn: the best, and an even sample of the others."
        )
    return style.finish(figure, title, caption, height=520).update_layout(legend_y=1.05)


def rung_survival(sweep: Sweep) -> go.Figure:
    """How many trials reached each rung, and what happened to them there."""
    title, trials = "Trials per rung", sweep.record.searched
    last = max((max(trial.epochs, default=0) for trial in trials), default=0)
    if not last:
        return style.blank(title, style.NO_EPOCH)
    end = sweep.record.info.max_epochs or last
    stages = sorted({0, *rungs(sweep), end})
    if len(stages) < 3:
        return style.blank(title, "No trial was pruned.")
    names = ["started", *(f"epoch {epoch}" for epoch in stages[1:-1]), f"epoch {end} (the end)"]
    reached = [{t.number: t for t in trials if max(t.epochs, default=0) >= epoch} for epoch in stages]
    continued = [*(len(following) for following in reached[1:]), 0]
    figure = go.Figure(_bar("continued", names, continued, style.CONTINUED))
    for status, mark in style.MARKS.items():
        ended = [
            sum(trial.status == status for number, trial in here.items() if number not in following)
            for here, following in zip(reached, [*reached[1:], {}], strict=True)
        ]
        if any(ended):
            figure.add_trace(_bar(status, names, ended, mark))
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title_text="trials that reached the rung")
    caption = "A bar is all trials that reached the rung. Its parts show their status before the next rung."
    return style.finish(figure, title, caption)


def history(sweep: Sweep) -> go.Figure:
    """The best score so far, by trials that ended and by epochs trained."""
    metric, objective = sweep.record.objective.metric, sweep.record.objective
    title = f"Best {metric} so far"
    if not any(trial.best_score(objective) is not None for trial in sweep.record.searched):
        return style.blank(title, style.NO_EPOCH)
    figure = make_subplots(rows=2, cols=1, vertical_spacing=0.2)
    ended = sorted((t for t in sweep.record.searched if t.end is not None), key=lambda t: (t.end, t.number))
    _add_ended(figure, objective, ended)
    reports = sorted(
        (row.time, math.nan if is_bad(trial) else row.score)
        for trial in sweep.record.searched
        for row in trial.epochs.values()
    )
    epochs = list(enumerate((score for _, score in reports), start=1))
    figure.add_trace(_best_so_far("best so far, of all epochs", objective, epochs, "dash"), row=2, col=1)
    figure.update_xaxes(title_text="trials ended", row=1, col=1)
    figure.update_xaxes(title_text="epochs trained, sum of all trials", row=2, col=1)
    figure.update_yaxes(title_text=metric)
    caption = "Top: the score of the best epoch of each trial. Bottom: the best score by epochs trained."
    caption += style.cut(figure, (point for trace in figure.data for point in trace.y))
    return style.finish(figure, title, caption, height=640)


def _bar(name: str, x: Sequence[str], y: Sequence[int], mark: style.Mark) -> go.Bar:
    return go.Bar(
        name=name,
        x=x,
        y=y,
        text=[f"{number:,}" if number else "" for number in y],
        textangle=0,
        textposition="inside",
        textfont={"color": "white", "shadow": "0 0 3px black, 0 0 3px black"},
        marker={"color": mark.color, "pattern": mark.filling},
    )


def _add_curves(figure: go.Figure, trials: Sequence[TrialRow]) -> None:
    """All of one status: as one line with gaps, and a mark where each ended, or was last finite."""
    status, mark, curves = trials[0].status, style.MARKS[trials[0].status], [_curve(each) for each in trials]
    points = [point for curve in curves for point in (*curve, (None, None, ""))]
    ends = [next((point for point in reversed(curve) if point[1] is not None), None) for curve in curves]
    looks = {
        "line": {"color": mark.color, "dash": mark.dash, "width": 1.2},
        "opacity": 0.6,
        "showlegend": False,
    }
    name = f"{status} ({len(trials)})"
    _add_points(figure, points, mode="lines", legendgroup=status, **looks)
    _add_points(
        figure,
        [(epoch, score, f"{text}, {status}") for epoch, score, text in filter(None, ends)],
        **{"mode": "markers", "legendgroup": status, "name": name, "marker": mark.points(9)},
    )


_Point = tuple[int | None, float | None, str]
"""Epoch, finite score and the words of a point; a gap has none."""


def _curve(trial: TrialRow) -> list[_Point]:
    scores = {epoch: trial.epochs[epoch].score for epoch in sorted(trial.epochs)}
    return [(e, s if math.isfinite(s) else None, f"trial {trial.number}") for e, s in scores.items()]


def _add_points(figure: go.Figure, points: Sequence[_Point], **looks: Any) -> None:
    x, y, text = zip(*points, strict=True) if points else ((), (), ())
    figure.add_trace(go.Scatter(x=x, y=y, text=text, **looks))


def _add_best(figure: go.Figure, best: TrialRow, objective: Objective) -> None:
    points, top = _curve(best), best.best_epoch(objective)
    marker = {
        "symbol": ["star" if epoch == top else "circle" for epoch, *_ in points],
        "size": [15 if epoch == top else 1 for epoch, *_ in points],
    }
    line = {"color": style.BLACK, "width": 3}
    name = f"best: trial {best.number}"
    _add_points(figure, points, mode="lines+markers", name=name, line=line, marker=marker)


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
    figure.add_trace(_best_so_far("best so far", objective, well, "solid"), row=1, col=1)


def _best_so_far(
    name: str, objective: Objective, points: Sequence[tuple[int, float]], dash: str
) -> go.Scatter:
    """A line with a step wherever the score of a point is the best so far."""
    steps: list[tuple[int, float]] = []
    for x, score in points:
        if objective.is_better(score, steps[-1][1] if steps else None):
            steps.append((x, score))
    steps += [(points[-1][0], steps[-1][1])] if steps else []
    line = {"shape": "hv", "color": style.BLACK, "width": 2.5, "dash": dash}
    places, scores = [place for place, _ in steps], [score for _, score in steps]
    return go.Scatter(x=places, y=scores, mode="lines", name=name, line=line)
