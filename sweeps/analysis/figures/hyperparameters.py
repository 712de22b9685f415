"""How the score depends on the hyperparameters: importance, the score by each and by pairs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from sweeps.analysis.compared_trials import ComparedTrials, compared_trials, trainables
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.record.record import Record

MOST_POINTS = 1000
"""Trials in a slice."""
MOST_CELLS = 100
"""Trials of a contour, which has a cell for each two of them."""
LEAST_POINTS = 30
"""Points of a contour: between fewer of them, a surface is a guess."""


def slices(sweep: Sweep) -> go.Figure:
    """The score by each hyperparameter, the most important hyperparameters first."""
    record, found = sweep.record, with_enough(sweep.record, trials=2, hyperparameters=1)
    title = f"{record.objective.metric} by hyperparameter"
    if isinstance(found, str):
        return style.blank(title, found)
    hyperparameters = by_importance(found)[:8]
    figure, places = style.grid(len(hyperparameters))
    for at, hyperparameter in zip(places, hyperparameters, strict=True):
        trials = _having(found, MOST_POINTS, hyperparameter)
        points = _points(record, found, trials, hyperparameter)
        points.marker = {"color": style.BLUE, "size": 7, "opacity": 0.55, "line": {"width": 0.5}}
        figure.add_trace(points, **at)
        _add_star(figure, record, found, at, hyperparameter)
        figure.update_xaxes(**style.axis(found.tried, hyperparameter), **at)
    cut = style.cut(figure, found.objective, found.scores.values(), found.scores.values())
    more = ""
    if left_out := len(found.tried.ranges) - len(hyperparameters):
        less = " of less importance" if found.importances and len(trainables(record)) == 1 else ""
        more = f"; {count(left_out, 'hyperparameter')}{less} left out"
    drawn = how_many_drawn(found, MOST_POINTS, "points")
    caption = f"A point is a trial, the star the best one: {found.words}{drawn}{more}.{cut}"
    return style.finish(figure, title, caption, legend=False, spans=len(hyperparameters) > 2)


def contour(sweep: Sweep) -> go.Figure:
    """The score by each pair of the most important hyperparameters."""
    title, record = "Score by pairs of hyperparameters", sweep.record
    found = with_enough(record, trials=5, hyperparameters=2)
    if isinstance(found, str):
        return style.blank(title, found)
    params, shown = found.tried.params, found.sample(MOST_CELLS)
    known = {name: {params[number].get(name) for number in shown} for name in by_importance(found)}
    hyperparameters = [name for name, values in known.items() if len(values - {None}) > 1][:3]
    trials = {pair: _having(found, MOST_CELLS, *pair) for pair in itertools.combinations(hyperparameters, 2)}
    pairs = [pair for pair, there in trials.items() if len(there) >= 5]
    if not pairs:
        return style.blank(title, "No two hyperparameters were tried together in 5 trials.")
    figure, places = style.grid(len(pairs), columns=1, height=style.HEIGHT + 20)
    for at, pair in zip(places, pairs, strict=True):
        points = _points(record, found, trials[pair], *pair)
        scores = [found.scores[number] for number in trials[pair]]
        if len(set(zip(points.x, points.y, strict=True))) >= LEAST_POINTS:
            surface = go.Contour(x=points.x, y=points.y, z=scores, coloraxis="coloraxis", connectgaps=True)
            surface.update(contours_coloring="heatmap", line={"smoothing": 1.3, "width": 0.5})
            figure.add_trace(surface, **at)
            points.marker = {"color": style.BLACK, "size": 6, "line": {"width": 1, "color": style.WHITE}}
        else:  # a surface between so few would show hills that no trial has seen
            line = {"width": 1, "color": style.GREY}
            points.marker = {"color": scores, "coloraxis": "coloraxis", "size": 10, "line": line}
        figure.add_trace(points, **at)
        _add_star(figure, record, found, at, *pair)
        figure.update_xaxes(**style.axis(found.tried, pair[0]), **at)
        figure.update_yaxes(**style.axis(found.tried, pair[1]), **at)
    scale = {"colorscale": style.SCORES, "reversescale": found.objective.mode == "min"}
    bar = {"title": {"text": record.objective.metric}, "thickness": 14}
    figure.update_layout(coloraxis={**scale, "colorbar": bar})
    which = count(len(hyperparameters), "hyperparameter")
    first = "" if found.importances else f"; the first {which} of the space"
    drawn = how_many_drawn(found, MOST_CELLS, "points")
    caption = f"A point is a trial: {found.words}{drawn}{first}."
    if surfaces := sum(trace.type == "contour" for trace in figure.data):
        caption += " Between points, scores are interpolated."
    if surfaces < len(pairs):
        caption += f" Of fewer than {LEAST_POINTS} points no surface is drawn: their color is the score."
    return style.finish(figure, title, caption, legend=False, spans=len(pairs) > 1)


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
            whys[name] = why if at.epoch else _no_score(sweep.record)
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


def by_importance(found: ComparedTrials) -> list[str]:
    """Hyperparameters that trials at this epoch have, by importance where that is known; else as in the
    space."""
    there = dict.fromkeys(name for number in found.scores for name in found.tried.params[number])
    hyperparameters = [name for name in there if name in found.tried.ranges]
    return sorted(hyperparameters, key=lambda name: -found.importances.get(name, 0.0))


def _having(found: ComparedTrials, most: int, *hyperparameters: str) -> list[int]:
    """At most so many trials that have some hyperparameters, the best one last."""
    return [n for n in found.sample(most) if set(hyperparameters) <= found.tried.params[n].keys()]


def _points(
    record: Record, found: ComparedTrials, trials: Sequence[int], across: str, up: str | None = None
) -> go.Scatter:
    """A point for each trial by two hyperparameters, or by one and the score."""
    scores = [found.scores[number] for number in trials]
    return go.Scatter(
        x=style.values(found.tried, across, trials),
        y=scores if up is None else style.values(found.tried, up, trials),
        mode="markers",
        **style.hover(record, [record.trials[number] for number in trials], found.epoch),
    )


def _add_star(
    figure: go.Figure, record: Record, found: ComparedTrials, at: Mapping[str, int], *names: str
) -> None:
    """Mark the best trial of the sweep, where it is among these."""
    best = record.best()
    if (
        best is None
        or best.number not in found.scores
        or not set(names) <= found.tried.params[best.number].keys()
    ):
        return
    x, *up = (style.values(found.tried, name, [best.number])[0] for name in names)
    y = up[0] if up else found.scores[best.number]
    figure.add_trace(style.star(record, best, x, y, found.epoch), **at)


def how_many_drawn(found: ComparedTrials, most: int, what: str) -> str:
    """`; 300 lines of 1,000 are drawn`, where not all are."""
    return f"; {most} {what} of {len(found.scores):,} are drawn" if len(found.scores) > most else ""


def _no_score(record: Record) -> str:
    return "No trial with a score ended well." if record.has_epochs else style.NO_EPOCH


def with_enough(record: Record, trials: int, hyperparameters: int) -> ComparedTrials | str:
    """The trials at one epoch, or why a figure that needs so many trials and hyperparameters is blank."""
    found = compared_trials(record)
    if not found.epoch:
        return _no_score(record)
    if len(found.scores) < trials:
        return f"{count(len(found.scores), 'trial')} with a score; this needs {trials}."
    if len(found.tried.ranges) < hyperparameters:
        which = "Only one hyperparameter" if found.tried.ranges else "No hyperparameter"
        return f"{which} was varied; this needs {count(hyperparameters, 'hyperparameter')}."
    return found
