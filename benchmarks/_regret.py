"""Means of regrets over repeats, with intervals, and their picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
SHARE = 95
"""Percent of the resampled means that an interval holds."""
Array = npt.NDArray[np.float64]

COLOURS = (
    "#000000", "#999999", "#56B4E9", "#0072B2", "#D55E00", "#882255", "#E69F00", "#CC79A7", "#009E73",
    "#661100", "#117733", "#88CCEE",
)  # fmt: skip
"""Okabe and Ito's, and some of Tol's: told apart by the colour-blind too."""


class Interval(NamedTuple):
    """A figure, and the ends of its bootstrap interval."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Interval:
    """The mean of repeats."""
    sample = np.asarray(values, float)
    return _interval(float(sample.mean()), _resampled(len(sample), lambda rows: sample[rows].mean(axis=1)))


def ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """The ratio of two means over the same repeats."""
    one, other = np.asarray(above, float), np.asarray(below, float)
    found = _resampled(len(one), lambda rows: one[rows].mean(axis=1) / other[rows].mean(axis=1))
    return _interval(float(one.mean() / other.mean()), found)


def _resampled(count: int, of: Any) -> Array:
    """A figure of many samples of so many repeats, drawn with replacement."""
    generator = np.random.default_rng(0)
    figures: Array = of(generator.integers(count, size=(RESAMPLES, count)))
    return figures


def _interval(value: float, figures: Array) -> Interval:
    low, high = np.percentile(figures, [(100 - SHARE) / 2, (100 + SHARE) / 2])
    return Interval(value, float(low), float(high))


def draw(means: Mapping[tuple[str, int], Mapping[str, Mapping[int, Interval]]], path: Path) -> None:
    """A panel per family and number of slots, a line per arm.

    Args:
        means: family and slots, to arm, to budget, to the mean regret.
        path: PNG to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2 * len(means), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, len(means), squeeze=False)[0]
    for panel, ((family, slots), arms) in zip(panels, means.items(), strict=True):
        for place, (arm, by_budget) in enumerate(arms.items()):
            style, colour = "--" if arm.startswith("Ray") else "-", COLOURS[place % len(COLOURS)]
            middle, low, high = zip(*by_budget.values(), strict=True)
            panel.plot(list(by_budget), middle, style, marker="o", color=colour, label=arm, linewidth=2)
            panel.fill_between(list(by_budget), low, high, color=colour, alpha=0.08, linewidth=0)
        panel.set_title(f"{family}, {slots} trial{'s' if slots > 1 else ''} at a time")
        panel.set_xscale("log")
        panel.set_xticks(budgets := sorted({budget for each in arms.values() for budget in each}))
        panel.set_xticklabels([f"{budget:,}" for budget in budgets])
        panel.minorticks_off()
        panel.set_xlabel("epochs spent")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"regret of the choice, points of accuracy (mean, {SHARE} % interval)")
    panels[-1].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
