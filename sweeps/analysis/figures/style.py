"""The common look of figures: template, marks that differ by more than colour, blank figures, axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from optuna.distributions import CategoricalDistribution

from sweeps.analysis.tried_values import Tried
from sweeps.common.param_types import shown
from sweeps.record.trials import Status

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A8A8A"
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, BLACK)
"""Colours for the colour-blind too: Okabe and Ito, 2008, https://jfly.uni-koeln.de/color/"""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
LOG_TICKS = 3
"""At most, of an axis of a log scale that may be 100 pixels wide: more than that, and they overlap."""
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
        return {"shape": self.pattern, "fgcolor": "white", "fillmode": "overlay", "size": 6}


MARKS: dict[Status, Mark] = {
    "finished": Mark(BLUE, "circle", "solid", ""),
    "pruned": Mark(ORANGE, "square-open", "dot", "/"),
    "stopped": Mark(SKY, "square", "5px,1px", "\\"),
    "failed": Mark(VERMILLION, "x", "dash", "x"),
    "diverged": Mark(PURPLE, "triangle-up", "dashdot", "."),
    "infeasible": Mark(BLACK, "diamond-open", "longdashdot", "|"),
    "unfinished": Mark(GREEN, "circle-open", "longdash", "-"),
}
CONTINUED = Mark(GREY, "circle", "solid", "")
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
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "margin": {"l": 56, "r": 16, "t": 64, "b": 48},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        "title": {"x": 0.0, "xref": "paper", "xanchor": "left", "font": {"size": 16}},
        "hovermode": "closest",
    }
)


def finish(
    figure: go.Figure,
    title: str,
    caption: str = "",
    height: int = 420,
    min_width: int = 0,
    legend: bool | None = None,
) -> go.Figure:
    """Give a figure the common look, and return it.

    Args:
        figure: is changed.
        title: what it shows.
        caption: what one must know to read it right.
        height: pixels.
        min_width: pixels below which it can't be read: a narrow page scrolls it.
        legend: whether it has one; None where it has one for several traces.
    """
    subtitle = {"text": caption, "font": {"size": 12, "color": "#444"}}
    figure.update_layout(
        template=TEMPLATE,
        title={"text": title, "subtitle": subtitle, "y": None, "yanchor": None, "yref": None},
        height=height,
        width=None,
        autosize=True,
        margin_t=110 if legend or (legend is None and len(figure.data) > 1) else 70,
        showlegend=legend,
        meta={"min_width": min_width},
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


def cut(figure: go.Figure, scores: Iterable[float]) -> str:
    """Let the axes of scores leave out outliers; a sentence that says so, "" where there are none."""
    values = np.array([score for score in scores if math.isfinite(score)])
    if not len(values):
        return ""
    first, third = np.percentile(values, [25, 75])
    # Ten times the size of what is usual: a score of 1e6 would leave no room for the others.
    reach = 10 * max(third - first, abs(first), abs(third))
    shown = values[(values >= first - reach) & (values <= third + reach)]
    if reach == 0 or len(shown) == len(values):
        return ""
    bottom, top = float(shown.min()), float(shown.max())
    margin = 0.05 * (top - bottom)
    figure.update_yaxes(range=[bottom - margin, top + margin])
    return f" Outliers, beyond {bottom:.3g} to {top:.3g}, are not shown."
