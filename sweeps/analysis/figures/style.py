"""The common look of figures: template, marks that differ by more than colour, blank figures, axes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
from optuna.distributions import CategoricalDistribution
from plotly.subplots import make_subplots

from sweeps.analysis.compared_trials import Tried
from sweeps.common.formatting import cell, count, short
from sweeps.common.objective import Objective
from sweeps.common.param_types import shown
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import Status, TrialRow

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A8A8A"
WHITE = "rgb(255, 255, 255)"
"""The ground, which `figures.js` replaces: a hyperparameter may have the value `white`."""
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, BLACK)
"""Colours for the colour-blind too: Okabe and Ito, 2008, https://jfly.uni-koeln.de/color/"""
SCORES = [[0.0, "#aab4be"], [0.5, ORANGE], [1.0, VERMILLION]]
"""Colours of scores, from the worst to the best: each is seen on a light and on a dark page."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
HEIGHT = 220
"""Of a panel, in pixels."""
LOG_TICKS = 3
"""At most, of an axis of a log scale that may be 100 pixels wide: more than that, and they overlap."""
MOST_HYPERPARAMETERS = 12
"""That a point tells of its trial."""
LEAST_CUT = 8
"""Scores of which an axis may leave out the worst."""
NO_EPOCH = "No epoch has been reported."
"""Why most figures of a new sweep are blank."""


@dataclass(frozen=True)
class Mark:
    """The look of trials of one status."""

    color: str
    symbol: str
    dash: str
    pattern: str

    def points(self, size: int) -> dict[str, object]:
        """The marker of a scatter; its line is what shows of open symbols."""
        line = {"width": 2, "color": self.color}
        return {"color": self.color, "symbol": self.symbol, "size": size, "line": line}

    @property
    def filling(self) -> dict[str, object]:
        """The pattern of a bar."""
        return {"shape": self.pattern, "fgcolor": WHITE, "fillmode": "overlay", "size": 6}


MARKS: dict[Status, Mark] = {
    "finished": Mark(BLUE, "circle", "solid", ""),
    "pruned": Mark(ORANGE, "square-open", "dot", "/"),
    "stopped": Mark(SKY, "square", "5px,1px", "\\"),
    "failed": Mark(VERMILLION, "x", "dash", "x"),
    "diverged": Mark(PURPLE, "triangle-up", "dashdot", "."),
    "infeasible": Mark(BLACK, "diamond-open", "longdashdot", "|"),
    "unfinished": Mark(GREEN, "circle-open", "longdash", "-"),
}
_AXIS = {
    "gridcolor": "#e6e6e6",
    "linecolor": "#777",
    "zeroline": False,
    "automargin": True,
    "exponentformat": "power",
    "title": {"font": {"size": 13}, "standoff": 8},
}
TEMPLATE = go.layout.Template(
    layout={
        "colorway": PALETTE,
        "colorscale": {"sequential": "Cividis"},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1a1a1a"},
        "paper_bgcolor": WHITE,
        "plot_bgcolor": WHITE,
        "margin": {"l": 56, "r": 16, "t": 64, "b": 48},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        "title": {"x": 0.0, "xref": "paper", "xanchor": "left", "font": {"size": 16}},
        "hovermode": "closest",
    }
)


def line(place: int) -> dict[str, object]:
    """The line of one of several things that are drawn together."""
    return {"color": PALETTE[place % len(PALETTE)], "dash": DASHES[place % len(DASHES)], "width": 2.2}


def grid(
    panels: int, columns: int = 2, height: int = HEIGHT, spacing: float = 0.3
) -> tuple[go.Figure, list[dict[str, int]]]:
    """A figure of panels, each so many pixels high, and where each stands. A page may lay them out anew, as
    many side by side as it has room for."""
    rows = math.ceil(panels / columns)
    figure = make_subplots(rows=rows, cols=columns, vertical_spacing=spacing / rows)
    figure.update_layout(height=110 + height * rows, meta={"panels": panels})
    places = [{"row": place // columns + 1, "col": place % columns + 1} for place in range(panels)]
    return figure, places


def finish(
    figure: go.Figure,
    title: str,
    caption: str = "",
    height: int = 360,
    min_width: int = 0,
    legend: bool | None = None,
    spans: bool = False,
) -> go.Figure:
    """Give a figure the common look, and return it.

    Args:
        figure: is changed.
        title: what it shows.
        caption: what one must know to read it right.
        height: pixels, of a figure that is no `grid`.
        min_width: pixels below which it can't be read: a narrow page scrolls it.
        legend: whether it has one; None where it has one for several traces.
        spans: whether it is as wide as a page.
    """
    subtitle = {"text": caption, "font": {"size": 12, "color": "#444"}}
    figure.update_layout(
        template=TEMPLATE,
        title={"text": title, "subtitle": subtitle, "y": None, "yanchor": None, "yref": None},
        height=figure.layout.height or height,
        width=None,
        autosize=True,
        margin_t=110 if legend or (legend is None and len(figure.data) > 1) else 70,
        showlegend=legend,
        meta={"panels": 0, **(figure.layout.meta or {}), "min_width": min_width, "spans": spans},
    )
    return figure


def blank(title: str, why: str) -> go.Figure:
    """A figure of nothing, with the reason on it."""
    figure = go.Figure()
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(text=why, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)
    return finish(figure, title, height=160).update_layout(meta={"why": why})


def why_blank(figure: go.Figure) -> str:
    """Why there is nothing on a figure; "" where there is something."""
    return str((figure.layout.meta or {}).get("why", ""))


def why_not_comparable(records: Mapping[str, Record]) -> str:
    """Why scores of sweeps can't be compared; "" where they can."""
    objectives = dict.fromkeys(
        f"{each.objective.metric} ({each.objective.mode})" for each in records.values()
    )
    if len(objectives) > 1:
        return f"These sweeps have different objectives: {', '.join(objectives)}."
    return "" if any(record.has_epochs for record in records.values()) else NO_EPOCH


def values(space: Tried, hyperparameter: str, trials: Iterable[int]) -> list[Any]:
    """Those of a hyperparameter that trials had, by their numbers, for an axis of `axis`."""
    found = [space.params[number][hyperparameter] for number in trials]
    is_choice = isinstance(space.ranges[hyperparameter], CategoricalDistribution)
    return [shown(value) for value in found] if is_choice else found


def axis(space: Tried, hyperparameter: str) -> dict[str, Any]:
    """The axis of a hyperparameter: of its choices in their order, or of its range on its scale."""
    drawn_from = space.ranges[hyperparameter]
    if isinstance(drawn_from, CategoricalDistribution):
        names = [shown(choice) for choice in drawn_from.choices]
        order = {"type": "category", "categoryorder": "array", "categoryarray": names}
        return {"title_text": hyperparameter, **order, "range": [-0.5, len(names) - 0.5]}
    is_log = getattr(drawn_from, "log", False)
    every = [params[hyperparameter] for params in space.params.values() if hyperparameter in params]
    return {"title_text": hyperparameter, **({"type": "log", **log_ticks(every)} if is_log else {})}


def log_ticks(values: Sequence[Any]) -> dict[str, object]:
    """Ticks of a narrow log axis: powers of ten alone, where values span enough of them; plotly would write a
    2 and a 5 between them, one over the other."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = 0.05 * (high - low)  # plotly draws some more than the values span
    first, last = math.ceil(low - margin), math.floor(high + margin)
    if last <= first:
        return {"nticks": LOG_TICKS}
    return {"dtick": math.ceil((last - first + 1) / LOG_TICKS), "tick0": first}


def hover(
    record: Record, trials: Sequence[TrialRow], epoch: int | None = None, score: str = "%{customdata[1]}"
) -> dict[str, Any]:
    """What points say, one for each of these trials: trial and status, its score in this epoch or in its best
    one, hyperparameters. Where each point is of another epoch, `score` is how plotly tells that."""
    said = {trial.number: _said(record, trial, epoch) for trial in trials}
    template = f"<b>%{{customdata[0]}}</b><br>{score}<br>%{{customdata[2]}}<extra></extra>"
    return {"customdata": [said[trial.number] for trial in trials], "hovertemplate": template}


def _said(record: Record, trial: TrialRow, epoch: int | None) -> tuple[str, str, str]:
    of = f"rerun of trial {trial.confirms}, " if trial.confirms is not None else ""
    if epoch is None and (epoch := trial.best_epoch(record.objective)) is not None:
        scores = status.in_words(record, trial.values(record.objectives))
    else:
        scores = f"{record.objective.metric} {short(trial.epochs[epoch].score)}" if epoch else ""
    params = record.varied(trial)
    lines = [f"{name} {cell(params, name)}" for name in [*params][:MOST_HYPERPARAMETERS]]
    if (more := len(params) - len(lines)) > 0:
        lines.append(f"and {count(more, 'hyperparameter')} more")
    where = f"epoch {epoch}: {scores}" if epoch else "no score"
    head = f"trial {trial.number}, {of}{trial.status}"
    return escape(head), escape(where), "<br>".join(map(escape, lines))


def star(record: Record, best: TrialRow, x: Any, y: Any, epoch: int | None = None, **more: Any) -> go.Scatter:
    """The mark of the best trial, over those of the others."""
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers",
        marker={"symbol": "star", "size": 15, "color": BLACK, "line": {"width": 1, "color": WHITE}},
        **{"name": f"best: trial {best.number}", **hover(record, [best], epoch), **more},
    )


def cut(figure: go.Figure, objective: Objective, shown: Iterable[float], best: Iterable[float]) -> str:
    """Let the axes of scores end where the trials that matter do; a sentence that says so, "" where all are
    shown: from the best one they reach four times as far as the median trial, which leaves the better half a
    quarter of the figure. `best` is the best score of each trial that did not fail."""
    sign = objective.sign
    every = [sign * score for score in shown if math.isfinite(score)]
    scores = sorted(sign * score for score in best if math.isfinite(score))
    if len(scores) < LEAST_CUT or scores[0] == scores[-1]:
        return ""
    top, tied = scores[-1], bool(scores[-1] == statistics.median(scores))
    end = top - 4 * (top - (scores[0] if tied else statistics.median(scores)))
    worst, margin = min(every, default=top), 0.06 * (top - end)
    if top - worst < 1.5 * (top - end):
        return ""
    figure.update_yaxes(range=sorted([sign * end, sign * (top + margin)]))
    beyond = sum(score < end for score in scores)
    which = f", with {beyond:,} of {count(len(scores), 'trial')} beyond it" if beyond else ""
    return f" The axis ends at {short(sign * end)}{which}; a double click shows all."
