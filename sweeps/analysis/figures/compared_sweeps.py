"""Several sweeps, or trials of several, in one figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sweeps.analysis.best_so_far import MEASURES, best_so_far
from sweeps.analysis.compared_trials import ComparedTrials, thinned
from sweeps.analysis.figures import style
from sweeps.analysis.figures.hyperparameters import MOST_AXES, MOST_LINES, Scale, add_axes, scale_of
from sweeps.common.formatting import count
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

MOST_STEPS = 300
Named = Mapping[str, Record]
"""Sweeps by the names under which they are shown."""


def best_of_each(records: Named) -> go.Figure:
    """The best score so far of each sweep, by trials, epochs and hours."""
    title = "Best so far"
    if why := _why_not_comparable(records):
        return style.blank(title, why)
    figure = make_subplots(rows=1, cols=len(MEASURES))
    for column, (measure, words) in enumerate(MEASURES.items(), start=1):
        for place, (name, record) in enumerate(records.items()):
            steps = best_so_far(record, measure, MOST_STEPS)
            line = {**_line(place), "shape": "hv"}
            figure.add_trace(
                go.Scatter(
                    x=[spent for spent, _ in steps],
                    y=[score for _, score in steps],
                    mode="lines",
                    name=name,
                    legendgroup=name,
                    showlegend=column == 1,
                    line=line,
                ),
                row=1,
                col=column,
            )
        figure.update_xaxes(title_text=words, rangemode="tozero", row=1, col=column)
    metric = next(iter(records.values())).objective.metric
    figure.update_yaxes(title_text=metric)
    caption = "A line is a sweep. A score of a trial that failed does not count."
    height = 110 + style.HEIGHT
    return style.finish(figure, title, caption, height, panels=len(MEASURES), spans=True, legend=True)


def curves_of_each(trials: Sequence[tuple[str, Record, TrialRow]]) -> go.Figure:
    """The scores of trials over their epochs."""
    title = "Learning curves"
    if why := _why_not_comparable({name: record for name, record, _ in trials}):
        return style.blank(title, why)
    figure = go.Figure()
    for place, (name, record, trial) in enumerate(trials):
        epochs = sorted(trial.epochs)
        scores = [trial.epochs[epoch].score for epoch in epochs]
        hover = style.hover(record, [trial] * len(epochs), score="epoch %{x}: %{y:.4g}")
        look = {"name": name, "mode": "lines+markers", "line": _line(place), "showlegend": True}
        figure.add_trace(go.Scatter(x=epochs, y=scores, **look, **hover))
    figure.update_xaxes(title_text="epoch", rangemode="tozero")
    figure.update_yaxes(title_text=trials[0][1].objective.metric)
    return style.finish(figure, title, "A curve is a trial.", legend=True)


def hyperparameters_of_each(records: Named) -> go.Figure:
    """A line for each trial through its sweep, its score and its hyperparameters."""
    title = "Hyperparameters"
    if why := _why_not_comparable(records):
        return style.blank(title, why)
    groups = {name: _best_trials(record, MOST_LINES // len(records)) for name, record in records.items()}
    return _lines(title, next(iter(records.values())), groups)


def hyperparameters_of_trials(trials: Sequence[tuple[str, Record, TrialRow]]) -> go.Figure:
    """The same of trials alone."""
    title = "Hyperparameters"
    if why := _why_not_comparable({name: record for name, record, _ in trials}):
        return style.blank(title, why)
    return _lines(title, trials[0][1], {name: [trial] for name, _, trial in trials})


def _best_trials(record: Record, most: int) -> list[TrialRow]:
    return [record.trials[number] for number in thinned(record.leaders(len(record.searched)), most)]


def _lines(title: str, first: Record, groups: Mapping[str, Sequence[TrialRow]]) -> go.Figure:
    """Each trial by the score of its best epoch, whichever that is."""
    objective, records = first.objective, [(name, t) for name, trials in groups.items() for t in trials]
    rows = [
        (name, trial, dataclasses.replace(trial, number=place, attempts=[]))
        for place, (name, trial) in enumerate(
            (name, trial) for name, trial in records if trial.best_score(objective) is not None
        )
    ]
    if len(rows) < 2:
        return style.blank(title, "Fewer than two of these trials have a score.")
    every = tuple(row for *_, row in rows)
    found = ComparedTrials(0, every, every, objective)
    numbers = [*range(len(rows))]
    names = [
        name for name in found.tried.ranges if all(name in found.tried.params[number] for number in numbers)
    ]
    left_out = len(found.tried.ranges) - len(names[: MOST_AXES - 1])
    names = names[: MOST_AXES - 1]
    scores = [trial.best_score(objective) or 0.0 for _, trial, _ in rows]
    scales = [Scale.of_numbers(scores, sign=objective.sign)]
    scales += [scale_of(found, name, numbers) for name in names]
    heights = [*zip(*(scale.heights for scale in scales), strict=True)]
    figure = go.Figure()
    for place, name in enumerate(groups):
        lines = [(trial, height) for (of, trial, _), height in zip(rows, heights, strict=True) if of == name]
        if not lines:
            continue
        points = [
            (f"{escape(name)}: trial {trial.number}, {trial.status}", *point)
            for trial, height in lines
            for point in [*enumerate(height), (None, None)]
        ]
        text, x, y = zip(*points, strict=True)
        look = {"line": {**_line(place), "width": 1.2 if len(lines) > 1 else 2.5}}
        opacity = 0.6 if len(lines) > 1 else 1.0
        hover = {"text": text, "hovertemplate": "%{text}<extra></extra>"}
        figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=name, opacity=opacity, **look, **hover))
    add_axes(figure, [objective.metric, *names], scales)
    caption = "A line is a trial, through the score of its best epoch and its hyperparameters."
    if left_out > 0:
        caption += f" {count(left_out, 'hyperparameter')} that not all have left out."
    width, spans = 84 * (len(names) + 1), len(names) > 5
    style.finish(figure, title, caption, min_width=width, spans=spans, legend=True)
    return figure.update_layout(legend_y=1.1)


def _why_not_comparable(records: Named) -> str:
    """Why scores of sweeps can't be compared; "" where they can."""
    objectives = dict.fromkeys(
        f"{each.objective.metric} ({each.objective.mode})" for each in records.values()
    )
    if len(objectives) > 1:
        return f"These sweeps have different objectives: {', '.join(objectives)}."
    return "" if any(record.has_epochs for record in records.values()) else style.NO_EPOCH


def _line(place: int) -> dict[str, object]:
    color = style.PALETTE[place % len(style.PALETTE)]
    return {"color": color, "dash": style.DASHES[place % len(style.DASHES)], "width": 2.2}
