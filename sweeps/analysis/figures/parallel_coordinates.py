"""Parallel coordinates: a line for each trial through its score and its hyperparameters.

Not by plotly's `parcoords`, which needs WebGL and `eval`, tells nothing of a line, and prints as pixels.
"""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from optuna.distributions import CategoricalDistribution
from plotly.colors import sample_colorscale

from sweeps.analysis.compared_trials import ComparedTrials, Tried, thinned, tried
from sweeps.analysis.figures import style
from sweeps.analysis.figures.hyperparameters import by_importance, how_many_drawn, with_enough
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count, short
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

MOST_LINES = 300
MOST_AXES_OF_HALF = 7
"""Beside another figure."""
MOST_AXES, MOST_LETTERS, BANDS = 12, 11, 9
"""Axes, the score among them; letters of a word beside one, colours by rank."""


def parallel_coordinates(sweep: Sweep) -> go.Figure:
    """A line per trial through its score and its hyperparameters, the most important first."""
    title, record = "Parallel coordinates", sweep.record
    found = with_enough(record, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    every = by_importance(found)
    had = {name: sum(name in found.tried.params[number] for number in found.scores) for name in every}
    names = [name for name in every if had[name] == len(found.scores)][: MOST_AXES - 1]
    trials = found.sample(MOST_LINES)
    scores = _Scale.of_numbers([found.scores[number] for number in trials], sign=found.objective.sign)
    scales = [scores, *(_scale_of(found.tried, name, trials) for name in names)]
    heights = dict(zip(trials, zip(*(scale.heights for scale in scales), strict=True), strict=True))
    figure = go.Figure()
    bands = np.array_split(np.array(trials), min(BANDS, len(trials)))
    colors = sample_colorscale(style.SCORES, np.linspace(0, 1, len(bands)).tolist())
    for color, band in zip(colors, bands, strict=True):  # the best ones are the last, over the others
        _add_lines(figure, record, found, heights, band.tolist(), {"color": color, "width": 1.3})
    if (best := record.best()) is not None and best.number in heights:
        _add_lines(figure, record, found, heights, [best.number], {"color": style.BLACK, "width": 3})
        figure.add_trace(style.star(record, best, 0, heights[best.number][0], found.epoch))
    labels = [record.objective.metric, *names]
    _add_axes(figure, labels, scales)
    caption = (
        f"A line is a trial, red the best ones: {found.words}{how_many_drawn(found, MOST_LINES, 'lines')}."
    )
    if left_out := len(every) - len(names):
        caption += f" {count(left_out, 'hyperparameter')} left out."
    width, spans = 80 * len(labels), len(labels) > MOST_AXES_OF_HALF
    figure = style.finish(figure, title, caption, min_width=width, spans=spans, legend=False)
    return figure.update_layout(margin_b=12, margin_t=95)  # its axis is at the top


def _add_axes(figure: go.Figure, labels: Sequence[str], scales: Sequence[_Scale]) -> None:
    """The axes of parallel coordinates, with their names above them."""
    for place, scale in enumerate(scales):
        for height, text in scale.ticks:
            words = {"text": text, "font_size": 11, "bgcolor": style.WHITE, "opacity": 0.85, "borderpad": 0}
            figure.add_annotation(x=place, y=height, showarrow=False, xanchor="left", xshift=3, **words)
    names = {"tickvals": list(range(len(labels))), "ticktext": [*map(_broken, labels)]}
    look = {"side": "top", "tickangle": 0, "gridcolor": style.GREY, "showline": False}
    figure.update_xaxes(range=[-0.1, len(labels) - 0.4], **names, **look)
    figure.update_yaxes(visible=False, range=[-0.04, 1.04])


def _add_lines(
    figure: go.Figure,
    record: Record,
    found: ComparedTrials,
    heights: Mapping[int, Sequence[float]],
    trials: Sequence[int],
    line: Mapping[str, object],
) -> None:
    """Lines of one look through the axes, with gaps between trials."""
    points = [
        (record.trials[number], *point)
        for number in trials
        for point in [*enumerate(heights[number]), (None, None)]
    ]
    of, x, y = zip(*points, strict=True)
    told = style.hover(record, of, found.epoch)
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line=line, **told))


class _Scale(NamedTuple):
    """An axis of parallel coordinates, from 0 at its bottom to 1."""

    heights: Sequence[float]
    """Of each trial."""
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], sign: int = 1, is_log: bool = False) -> _Scale:
        """Of the range of numbers; with -1 the smaller ones lie above."""
        values = [sign * (math.log10(number) if is_log else number) for number in numbers]
        low, high = min(values), max(values)
        width = high - low or 1.0
        at = [low, (low + high) / 2, high] if high > low else [low]
        texts = (short(float(10 ** (sign * value) if is_log else sign * value)) for value in at)
        ticks = [((value - low) / width, text) for value, text in zip(at, texts, strict=True)]
        return cls([(value - low) / width for value in values], ticks)


def _scale_of(space: Tried, name: str, trials: Sequence[int]) -> _Scale:
    """That of a hyperparameter: choices at equal distances, a log range by its logarithms."""
    values, drawn_from = style.values(space, name, trials), space.ranges[name]
    if not isinstance(drawn_from, CategoricalDistribution):
        return _Scale.of_numbers(values, is_log=getattr(drawn_from, "log", False))
    choices = list(style.axis(space, name)["categoryarray"])
    steps = max(1, len(choices) - 1)
    ticks = [(place / steps, _broken(choice)) for place, choice in enumerate(choices)]
    return _Scale([choices.index(value) / steps for value in values], ticks)


def _broken(name: str) -> str:
    """In two lines where it is too long for an axis beside others: of more, the last two."""
    lines = textwrap.wrap(re.sub(r"([._])", r"\1 ", name), MOST_LETTERS)
    return "<br>".join(escape(line.replace(" ", "")) for line in lines[-2:])


def hyperparameters_of_each(records: Mapping[str, Record]) -> go.Figure:
    """A line for each trial through its sweep, its score and its hyperparameters."""
    title = "Hyperparameters"
    if why := style.why_not_comparable(records):
        return style.blank(title, why)
    groups = {name: _best_trials(record, MOST_LINES // len(records)) for name, record in records.items()}
    return _lines(title, next(iter(records.values())), groups)


def hyperparameters_of_trials(trials: Sequence[tuple[str, Record, TrialRow]]) -> go.Figure:
    """The same of trials alone."""
    title = "Hyperparameters"
    if why := style.why_not_comparable({name: record for name, record, _ in trials}):
        return style.blank(title, why)
    return _lines(title, trials[0][1], {name: [trial] for name, _, trial in trials})


def _best_trials(record: Record, most: int) -> list[TrialRow]:
    return [record.trials[number] for number in thinned(record.leaders(len(record.searched)), most)]


def _lines(title: str, first: Record, groups: Mapping[str, Sequence[TrialRow]]) -> go.Figure:
    """Each trial by the score of its best epoch, whichever that is."""
    objective = first.objective
    every = [(name, trial) for name, trials in groups.items() for trial in trials]
    named = [(name, trial) for name, trial in every if trial.best_score(objective) is not None]
    if len(named) < 2:
        return style.blank(title, "Fewer than two of these trials have a score.")
    numbers = range(len(named))
    space = tried([dataclasses.replace(named[number][1], number=number) for number in numbers])
    whole = [name for name in space.ranges if all(name in space.params[number] for number in numbers)]
    names = whole[: MOST_AXES - 1]
    scores = _Scale.of_numbers([t.best_score(objective) or 0.0 for _, t in named], sign=objective.sign)
    scales = [scores, *(_scale_of(space, name, numbers) for name in names)]
    heights = [*zip(*(scale.heights for scale in scales), strict=True)]
    figure = go.Figure()
    for place, name in enumerate(groups):
        lines = [(trial, height) for (of, trial), height in zip(named, heights, strict=True) if of == name]
        if not lines:
            continue
        points = [
            (f"{escape(name)}: trial {trial.number}, {trial.status}", *point)
            for trial, height in lines
            for point in [*enumerate(height), (None, None)]
        ]
        text, x, y = zip(*points, strict=True)
        look = {"line": {**style.line(place), "width": 1.2 if len(lines) > 1 else 2.5}}
        opacity = 0.6 if len(lines) > 1 else 1.0
        hover = {"text": text, "hovertemplate": "%{text}<extra></extra>"}
        figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=name, opacity=opacity, **look, **hover))
    _add_axes(figure, [objective.metric, *names], scales)
    caption = "A line is a trial, through the score of its best epoch and its hyperparameters."
    if left_out := len(space.ranges) - len(names):
        caption += f" {count(left_out, 'hyperparameter')} that not all have left out."
    width, spans = 84 * (len(names) + 1), len(names) > 5
    style.finish(figure, title, caption, min_width=width, spans=spans, legend=True)
    return figure.update_layout(legend_y=1.1)
