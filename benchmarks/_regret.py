"""How far from the best a search still is: regret against epochs, over repeats, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.curves import Epoch, Place

STEP = 10
"""Epochs between two points of a curve of regret."""
MOST_SHOWN = 3.5
"""Points of regret in the figure: with its first trials, any search is tens of points behind."""
RESAMPLES = 10_000
SHARE = 95
"""Percent of the resampled means that an interval holds."""
Array = npt.NDArray[np.float64]

COLOURS = (
    "#000000", "#999999", "#56B4E9", "#0072B2", "#D55E00", "#882255", "#E69F00", "#CC79A7", "#009E73"
)  # fmt: skip
"""Okabe and Ito's, and one of Tol's: told apart by the colour-blind too."""


def regrets(found: Sequence[Epoch], qualities: Mapping[Place, float], budget: int) -> list[float]:
    """Points of accuracy behind the best of the table, after every STEP epochs.

    The incumbent is what a search would hand over: the point with the best score of any epoch so far. What
    counts is not that score but the point's quality. A search that ended before its budget stays where it
    was.
    """
    best = max(qualities.values())
    curve: list[float] = []
    incumbent = None
    for spent in range(1, budget + 1):
        epoch = found[min(spent, len(found)) - 1]
        if math.isfinite(epoch.score) and (incumbent is None or epoch.score > incumbent.score):
            incumbent = epoch
        if spent % STEP == 0:
            curve.append(100 * (best - (qualities[incumbent.place] if incumbent else 0.0)))
    return curve


def mean(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its bootstrap interval, its lower and its upper end."""
    sample = np.asarray(values, float)
    generator = np.random.default_rng(0)
    means = sample[generator.integers(len(sample), size=(RESAMPLES, len(sample)))].mean(axis=1)
    low, high = np.percentile(means, [(100 - SHARE) / 2, (100 + SHARE) / 2])
    return float(sample.mean()), float(low), float(high)


def draw(curves: Mapping[int, Mapping[str, Sequence[Sequence[float]]]], path: Path) -> None:
    """A panel per number of slots, a line per arm.

    Args:
        curves: slots to arm to the regrets of each repeat.
        path: PNG to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2 * len(curves), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for panel, (slots, arms) in zip(panels, curves.items(), strict=True):
        for (arm, repeats), colour in zip(arms.items(), COLOURS, strict=False):
            points = [mean(column) for column in zip(*repeats, strict=True)]
            epochs = [STEP * (number + 1) for number in range(len(points))]
            middle, low, high = zip(*points, strict=True)
            style = "--" if arm.startswith("Ray") else "-"
            panel.plot(epochs, middle, style, color=colour, label=arm, linewidth=2)
            panel.fill_between(epochs, low, high, color=colour, alpha=0.08, linewidth=0)
        panel.set_title(f"{slots} trial{'s' if slots > 1 else ''} at a time")
        panel.set_xlabel("epochs spent")
        panel.set_xlim(left=0)
        panel.set_ylim(0, MOST_SHOWN)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"regret, points of accuracy (mean, {SHARE} % interval)")
    panels[-1].legend(frameon=False, ncols=2, fontsize="small")
    figure.savefig(path, dpi=120)
