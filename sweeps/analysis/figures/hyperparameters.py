"""How the score depends on the hyperparameters: importance, the score by each, by pairs and by all."""

from __future__ import annotations

import itertools
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
from plotly.subplots import make_subplots

from sweeps.analysis.compared_trials import ComparedTrials, compared_trials, trainables
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count, short
from sweeps.record.record import Record

MOST_LINES, MOST_POINTS = 300, 1000
"""Trials in parallel coordinates, and in a slice."""
MOST_AXES_OF_HALF = 7
"""Of parallel coordinates beside another figure."""
MOST_AXES, MOST_LETTERS, BANDS = 12, 11, 9
"""Of parallel coordinates: axes, the score among them, letters of a word beside one, colours by rank."""
MOST_CELLS = 100
"""Trials of a contour, which has a cell for each two of them."""
LEAST_POINTS = 30
"""Points of a contour: between fewer of them, a surface is a guess."""


def parallel_coordinates(sweep: Sweep) -> go.Figure:
    """A line per trial through its score and its hyperparameters, the most important first.

    Not by plotly's `parcoords`, which needs WebGL and `eval`, tells nothing of a line, and prints as pixels.
    """
    title, found = "Parallel coordinates", _with_enough(sweep, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    record, every = sweep.record, _by_importance(found)
    had = {name: sum(name in found.tried.params[number] for number in found.scores) for name in every}
    names = [name for name in every if had[name] == len(found.scores)][: MOST_AXES - 1]
    trials = found.sample(MOST_LINES)
    scores = Scale.of_numbers([found.scores[number] for number in trials], sign=found.objective.sign)
    scales = [scores, *(scale_of(found, name, trials) for name in names)]
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
    add_axes(figure, labels, scales)
    caption = f"A line is a trial, red the best ones: {found.words}{_shown(found, MOST_LINES, 'lines')}."
    if left_out := len(every) - len(names):
        caption += f" {count(left_out, 'hyperparameter')} left out."
    width, spans = 80 * len(labels), len(labels) > MOST_AXES_OF_HALF
    figure = style.finish(figure, title, caption, min_width=width, spans=spans, legend=False)
    return figure.update_layout(margin_b=12, margin_t=95)  # its axis is at the top


def add_axes(figure: go.Figure, labels: Sequence[str], scales: Sequence[Scale]) -> None:
    """The axes of parallel coordinates, with their names above them."""
    for place, scale in enumerate(scales):
        for height, text in scale.ticks:
            words = {"text": text, "font_size": 11, "bgcolor": "white", "opacity": 0.85, "borderpad": 0}
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


class Scale(NamedTuple):
    """An axis of parallel coordinates, from 0 at its bottom to 1."""

    heights: Sequence[float]
    """Of each trial."""
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], sign: int = 1, is_log: bool = False) -> Scale:
        """Of the range of numbers; with -1 the smaller ones lie above."""
        values = [sign * (math.log10(number) if is_log else number) for number in numbers]
        low, high = min(values), max(values)
        width = high - low or 1.0
        at = [low, (low + high) / 2, high] if high > low else [low]
        texts = (short(float(10 ** (sign * value) if is_log else sign * value)) for value in at)
        ticks = [((value - low) / width, text) for value, text in zip(at, texts, strict=True)]
        return cls([(value - low) / width for value in values], ticks)


def scale_of(found: ComparedTrials, name: str, trials: Sequence[int]) -> Scale:
    """That of a hyperparameter: choices at equal distances, a log range by its logarithms."""
    values, drawn_from = style.values(found.tried, name, trials), found.tried.ranges[name]
    if not isinstance(drawn_from, CategoricalDistribution):
        return Scale.of_numbers(values, is_log=getattr(drawn_from, "log", False))
    choices = list(style.axis(found.tried, name)["categoryarray"])
    steps = max(1, len(choices) - 1)
    ticks = [(place / steps, _broken(choice)) for place, choice in enumerate(choices)]
    return Scale([choices.index(value) / steps for value in values], ticks)


def _broken(name: str) -> str:
    """In two lines where it is too long for an axis beside others: of more, the last two."""
    lines = textwrap.wrap(re.sub(r"([._])", r"\1 ", name), MOST_LETTERS)
    return "<br>".join(escape(line.replace(" ", "")) for line in lines[-2:])


def slices(sweep: Sweep) -> go.Figure:
    """The score by each hyperparameter, the most important hyperparameters first."""
    title = f"{sweep.record.objective.metric} by hyperparameter"
    found = _with_enough(sweep, trials=2, hyperparameters=1)
    if isinstance(found, str):
        return style.blank(title, found)
    hyperparameters = _by_importance(found)[:8]
    rows = math.ceil(len(hyperparameters) / 2)
    figure = make_subplots(rows=rows, cols=2, vertical_spacing=0.3 / rows)
    for place, hyperparameter in enumerate(hyperparameters):
        at = {"row": place // 2 + 1, "col": place % 2 + 1}
        trials = _having(found, MOST_POINTS, hyperparameter)
        points = _points(sweep, found, trials, hyperparameter)
        points.marker = {"color": style.BLUE, "size": 7, "opacity": 0.55, "line": {"width": 0.5}}
        figure.add_trace(points, **at)
        _add_star(figure, sweep, found, at, hyperparameter)
        figure.update_xaxes(**style.axis(found.tried, hyperparameter), **at)
    cut = style.cut(figure, found.objective, found.scores.values(), found.scores.values())
    more = ""
    if left_out := len(found.tried.ranges) - len(hyperparameters):
        less = " of less importance" if found.importances and len(trainables(sweep.record)) == 1 else ""
        more = f"; {count(left_out, 'hyperparameter')}{less} left out"
    drawn = _shown(found, MOST_POINTS, "points")
    caption = f"A point is a trial, the star the best one: {found.words}{drawn}{more}.{cut}"
    height, panels = 110 + style.HEIGHT * rows, len(hyperparameters)
    return style.finish(figure, title, caption, height, legend=False, panels=panels, spans=panels > 2)


def contour(sweep: Sweep) -> go.Figure:
    """The score by each pair of the most important hyperparameters."""
    title, found = "Score by pairs of hyperparameters", _with_enough(sweep, trials=5, hyperparameters=2)
    if isinstance(found, str):
        return style.blank(title, found)
    params, shown = found.tried.params, found.sample(MOST_CELLS)
    known = {name: {params[number].get(name) for number in shown} for name in _by_importance(found)}
    hyperparameters = [name for name, values in known.items() if len(values - {None}) > 1][:3]
    trials = {pair: _having(found, MOST_CELLS, *pair) for pair in itertools.combinations(hyperparameters, 2)}
    pairs = [pair for pair, there in trials.items() if len(there) >= 5]
    if not pairs:
        return style.blank(title, "No two hyperparameters were tried together in 5 trials.")
    figure = make_subplots(rows=len(pairs), cols=1, vertical_spacing=0.3 / len(pairs))
    for row, pair in enumerate(pairs, start=1):
        points = _points(sweep, found, trials[pair], *pair)
        scores = [found.scores[number] for number in trials[pair]]
        if len(set(zip(points.x, points.y, strict=True))) >= LEAST_POINTS:
            surface = go.Contour(x=points.x, y=points.y, z=scores, coloraxis="coloraxis", connectgaps=True)
            surface.update(contours_coloring="heatmap", line={"smoothing": 1.3, "width": 0.5})
            figure.add_trace(surface, row=row, col=1)
            points.marker = {"color": style.BLACK, "size": 6, "line": {"width": 1, "color": "white"}}
        else:  # a surface between so few would show hills that no trial has seen
            line = {"width": 1, "color": style.GREY}
            points.marker = {"color": scores, "coloraxis": "coloraxis", "size": 10, "line": line}
        figure.add_trace(points, row=row, col=1)
        _add_star(figure, sweep, found, {"row": row, "col": 1}, *pair)
        figure.update_xaxes(**style.axis(found.tried, pair[0]), row=row, col=1)
        figure.update_yaxes(**style.axis(found.tried, pair[1]), row=row, col=1)
    scale = {"colorscale": style.SCORES, "reversescale": found.objective.mode == "min"}
    bar = {"title": {"text": sweep.record.objective.metric}, "thickness": 14}
    figure.update_layout(coloraxis={**scale, "colorbar": bar})
    which = count(len(hyperparameters), "hyperparameter")
    first = "" if found.importances else f"; the first {which} of the space"
    drawn = _shown(found, MOST_CELLS, "points")
    caption = f"A point is a trial: {found.words}{drawn}{first}."
    if surfaces := sum(trace.type == "contour" for trace in figure.data):
        caption += " Between points, scores are interpolated."
    if surfaces < len(pairs):
        caption += f" Of fewer than {LEAST_POINTS} points no surface is drawn: their color is the score."
    height = 110 + (style.HEIGHT + 20) * len(pairs)
    spans = len(pairs) > 1
    return style.finish(figure, title, caption, height, legend=False, panels=len(pairs), spans=spans)


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
        text=[f"{100 * share:.1f} %" for _, _, share in bars],
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


def _having(found: ComparedTrials, most: int, *hyperparameters: str) -> list[int]:
    """At most so many trials that have some hyperparameters, the best one last."""
    return [n for n in found.sample(most) if set(hyperparameters) <= found.tried.params[n].keys()]


def _points(
    sweep: Sweep, found: ComparedTrials, trials: Sequence[int], across: str, up: str | None = None
) -> go.Scatter:
    """A point for each trial by two hyperparameters, or by one and the score."""
    scores = [found.scores[number] for number in trials]
    return go.Scatter(
        x=style.values(found.tried, across, trials),
        y=scores if up is None else style.values(found.tried, up, trials),
        mode="markers",
        **style.hover(sweep.record, [sweep.record.trials[number] for number in trials], found.epoch),
    )


def _add_star(
    figure: go.Figure, sweep: Sweep, found: ComparedTrials, at: Mapping[str, int], *names: str
) -> None:
    """Mark the best trial of the sweep, where it is among these."""
    best = sweep.record.best()
    if (
        best is None
        or best.number not in found.scores
        or not set(names) <= found.tried.params[best.number].keys()
    ):
        return
    x, *up = (style.values(found.tried, name, [best.number])[0] for name in names)
    y = up[0] if up else found.scores[best.number]
    figure.add_trace(style.star(sweep.record, best, x, y, found.epoch), **at)


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
