"""Learning curves of the score and of other metrics, and the best score so far, also of several sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from sweeps.analysis.compared_trials import thinned
from sweeps.analysis.course import MEASURES, best_so_far, in_order_of_ends, pruned_at
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.record.record import Record
from sweeps.record.trials import BAD, TrialRow

MOST_CURVES = 200
MOST_POINTS = 1_000
"""Of a scatter over all trials: more hide each other."""
MOST_METRICS, MOST_CURVES_OF_METRIC = 6, 20
MOST_STEPS = 300


def learning_curves(sweep: Sweep) -> go.Figure:
    """The score of each trial over its epochs, and where it ended; rungs as lines, the best one heavy."""
    record, metric = sweep.record, sweep.record.objective.metric
    title = f"Learning curves: {metric}"
    trials = [trial for trial in record.searched if trial.epochs]
    if not trials:
        return style.blank(title, style.NO_EPOCH)
    places = {number: place for place, number in enumerate(record.leaders(MOST_CURVES))}
    shown = thinned(sorted(trials, key=lambda trial: places.get(trial.number, math.inf)), MOST_CURVES)
    figure = go.Figure()
    for status in style.MARKS:
        if of_status := [trial for trial in shown if trial.status == status]:
            _add_curves(figure, record, of_status)
    if (best := record.best()) is not None:
        figure.add_trace(_curves(record, [best], metric, _BEST))
        epoch, score = best.best_epoch(record.objective), best.best_score(record.objective)
        figure.add_trace(style.star(record, best, epoch, score))
    for epoch in pruned_at(record):
        figure.add_vline(epoch, line={"color": style.GREY, "dash": "dot", "width": 1})
        figure.add_annotation(
            x=epoch, y=1, yref="paper", yanchor="bottom", text=f"rung {epoch}", showarrow=False, font_size=11
        )
    last = max(max(trial.epochs) for trial in shown)
    figure.update_xaxes(title_text="epoch", rangemode="tozero", dtick=1 if last <= 12 else None)
    figure.update_yaxes(title_text=metric)
    caption = "A curve is a trial. The mark at its end shows its status."
    every = (row.score for trial in shown for row in trial.epochs.values())
    caption += style.cut(figure, record.objective, every, _best_scores(record))
    if len(shown) < len(trials):
        caption += (
            f" {len(shown)} of {len(trials):,} trials are drawn: the best, and an even sample of the others."
        )
    return style.finish(figure, title, caption, height=460).update_layout(legend_y=1.05)


def metrics(sweep: Sweep) -> go.Figure:
    """The other metrics that the best trials logged, such as the losses, over their epochs."""
    title, record = "Other metrics", sweep.record
    best = [trial for trial in [record.best()] if trial is not None]
    leaders = (record.trials[number] for number in record.leaders(MOST_CURVES_OF_METRIC))
    trials = [*best, *(trial for trial in leaders if trial not in best)]
    names = [name for name in _logged(trials) if name != record.objective.metric]
    if not names:
        why = "The trials logged no other metric." if record.has_epochs else style.NO_EPOCH
        return style.blank(title, why)
    others = {"line": {"color": style.BLUE, "width": 1.2}, "opacity": 0.5}
    figure, left_out = _metric_panels(record, names, [(trials[1:], others), (trials[:1], _BEST)])
    drawn = f"The best {len(trials)} trials" if len(trials) > 1 else "The best trial"
    caption = f"{drawn}; the heavy curve is trial {trials[0].number}, the best.{left_out}"
    return style.finish(figure, title, caption, legend=False)


def trial_curves(record: Record, number: int) -> go.Figure:
    """All metrics of a trial over its epochs, beside those of the best trials."""
    trial, best = record.trials[number], record.best()
    title = f"Trial {number} beside the best trials"
    if not trial.epochs:
        return style.blank(title, "It has reported no epoch yet.")
    leaders = [record.trials[each] for each in record.leaders(MOST_CURVES_OF_METRIC) if each != number]
    others: dict[str, Any] = {
        "name": "the best trials",
        "line": {"color": style.GREY, "width": 1},
        "opacity": 0.5,
    }
    looks = [([each for each in leaders if each is not best], others)]
    if best is not None and best is not trial:
        of_best = {"name": f"best: trial {best.number}", "line": {"color": style.BLACK, "width": 2}}
        looks.append(([best], of_best))
    own = {"name": f"trial {number}", "line": {"color": style.VERMILLION, "width": 3}}
    looks.append(([trial], {**own, "mode": "lines+markers" if len(trial.epochs) == 1 else "lines"}))
    names = list(dict.fromkeys([record.objective.metric, *_logged([trial])]))
    figure, left_out = _metric_panels(record, names, looks)
    caption = f"The thick curve is this trial; the thin ones are the best {len(leaders)} others.{left_out}"
    return style.finish(figure, title, caption, spans=len(names) > 2, legend=True)


def _logged(trials: Sequence[TrialRow]) -> dict[str, None]:
    """Names of metrics, in order."""
    return dict.fromkeys(name for trial in trials for row in trial.epochs.values() for name in row.metrics)


def _metric_panels(
    record: Record, names: Sequence[str], looks: Sequence[tuple[Sequence[TrialRow], Mapping[str, Any]]]
) -> tuple[go.Figure, str]:
    """A panel for each metric with curves of several looks, and a sentence on metrics that are left out."""
    shown = names[:MOST_METRICS]
    figure, places = style.grid(len(shown))
    for at, metric in zip(places, shown, strict=True):
        for trials, look in looks:
            if trials:
                curves = _curves(record, trials, metric, {**look, "showlegend": at is places[0]})
                figure.add_trace(curves, **at)
        figure.update_xaxes(title_text="epoch", rangemode="tozero", **at)
        figure.update_yaxes(title_text=metric, **at)
    left_out = len(names) - len(shown)
    return figure, f" {left_out} more metrics are in the epochs of the record." if left_out else ""


def history(sweep: Sweep) -> go.Figure:
    """The best score of each trial in the order in which they ended, and the best so far."""
    record, objective = sweep.record, sweep.record.objective
    title = f"Best {objective.metric} so far"
    if not any(trial.best_score(objective) is not None for trial in record.searched):
        return style.blank(title, style.NO_EPOCH)
    figure = go.Figure()
    points = [
        (place, trial, score)
        for place, trial in enumerate(in_order_of_ends(record), start=1)
        if (score := trial.best_score(objective)) is not None
    ]
    sign = objective.sign
    drawn = thinned(sorted(points, key=lambda point: (-sign * point[2], point[0])), MOST_POINTS)
    for status, mark in style.MARKS.items():
        if of_status := [point for point in drawn if point[1].status == status]:
            places, trials, scores = zip(*of_status, strict=True)
            looks = {"mode": "markers", "name": status, "marker": mark.points(8)}
            figure.add_trace(go.Scatter(x=places, y=scores, **looks, **style.hover(record, trials)))
    steps = best_so_far(record, "trials")
    line = {"shape": "hv", "color": style.BLACK, "width": 2.5}
    x, y = zip(*steps, strict=True) if steps else ((), ())
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name="best so far", line=line, hoverinfo="skip"))
    best = record.best()
    for place, trial, score in points:
        if trial is best:
            figure.add_trace(style.star(record, trial, place, score))
    figure.update_xaxes(title_text="trials ended")
    figure.update_yaxes(title_text=objective.metric)
    caption = "A mark is a trial, by the score of its best epoch, in the order in which they ended."
    if len(drawn) < len(points):
        caption += (
            f" {len(drawn):,} of {len(points):,} are drawn: the best, and an even sample of the others."
        )
    caption += style.cut(figure, objective, (score for *_, score in points), _best_scores(record))
    return style.finish(figure, title, caption)


def best_of_each(records: Mapping[str, Record]) -> go.Figure:
    """The best score so far of each sweep, by trials, epochs and hours."""
    title = "Best so far"
    if why := style.why_not_comparable(records):
        return style.blank(title, why)
    figure, places = style.grid(len(MEASURES), columns=len(MEASURES))
    for at, (measure, words) in zip(places, MEASURES.items(), strict=True):
        for place, (name, record) in enumerate(records.items()):
            steps = best_so_far(record, measure, MOST_STEPS)
            line = go.Scatter(
                x=[spent for spent, _ in steps],
                y=[score for _, score in steps],
                mode="lines",
                name=name,
                legendgroup=name,
                showlegend=at is places[0],
                line={**style.line(place), "shape": "hv"},
            )
            figure.add_trace(line, **at)
        figure.update_xaxes(title_text=words, rangemode="tozero", **at)
    metric = next(iter(records.values())).objective.metric
    figure.update_yaxes(title_text=metric)
    caption = "A line is a sweep. A score of a trial that failed does not count."
    return style.finish(figure, title, caption, spans=True, legend=True)


def curves_of_each(trials: Sequence[tuple[str, Record, TrialRow]]) -> go.Figure:
    """The scores of trials over their epochs."""
    title = "Learning curves"
    if why := style.why_not_comparable({name: record for name, record, _ in trials}):
        return style.blank(title, why)
    figure = go.Figure()
    for place, (name, record, trial) in enumerate(trials):
        look = {"name": name, "mode": "lines+markers", "line": style.line(place), "showlegend": True}
        figure.add_trace(_curves(record, [trial], record.objective.metric, look))
    figure.update_xaxes(title_text="epoch", rangemode="tozero")
    figure.update_yaxes(title_text=trials[0][1].objective.metric)
    return style.finish(figure, title, "A curve is a trial.", legend=True)


_BEST = {"line": {"color": style.BLACK, "width": 3}, "showlegend": False}


def _best_scores(record: Record) -> list[float]:
    """That of each trial that did not fail."""
    scores = (trial.best_score(record.objective) for trial in record.searched if trial.status not in BAD)
    return [score for score in scores if score is not None]


def _add_curves(figure: go.Figure, record: Record, trials: Sequence[TrialRow]) -> None:
    """All of one status: as one line with gaps, and a mark where each ended, or was last finite."""
    status, mark = trials[0].status, style.MARKS[trials[0].status]
    line = {"color": mark.color, "dash": mark.dash, "width": 1.2}
    looks = {"line": line, "opacity": 0.6, "showlegend": False, "legendgroup": status}
    figure.add_trace(_curves(record, trials, record.objective.metric, looks))
    ends = [
        (trial, *points[-1])
        for trial in trials
        if (points := _points(trial, record.objective.metric, record))
    ]
    if not ends:
        return
    ended, epochs, scores = zip(*ends, strict=True)
    figure.add_trace(
        go.Scatter(
            x=epochs,
            y=scores,
            mode="markers",
            name=f"{status} ({len(trials)})",
            legendgroup=status,
            marker=mark.points(9),
            **style.hover(record, ended, score=_at(record.objective.metric)),
        )
    )


def _points(trial: TrialRow, metric: str, record: Record) -> list[tuple[int, float]]:
    """Epochs and finite values of a metric."""
    is_score = metric == record.objective.metric
    values = {
        e: row.score if is_score else row.metrics.get(metric, math.nan) for e, row in trial.epochs.items()
    }
    return [(epoch, values[epoch]) for epoch in sorted(values) if math.isfinite(values[epoch])]


def _curves(record: Record, trials: Sequence[TrialRow], metric: str, looks: Mapping[str, Any]) -> go.Scatter:
    """A line with a gap between trials."""
    found = [(trial, *point) for trial in trials for point in [*_points(trial, metric, record), (None, None)]]
    of, x, y = zip(*found[:-1], strict=True) if len(found) > 1 else ((), (), ())
    return go.Scatter(x=x, y=y, **{"mode": "lines", **looks}, **style.hover(record, of, score=_at(metric)))


def _at(metric: str) -> str:
    return f"epoch %{{x}}: {escape(metric)} %{{y:.4g}}"
