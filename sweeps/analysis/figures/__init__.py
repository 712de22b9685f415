"""Figures of a sweep, each a function from `results.load(folder)` to a plotly figure.

They need no network, and a sweep may be running, empty or interrupted: where there is nothing to show, the
figure says why (`why_blank`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sweeps.analysis.figures.best_trials import front, seeds
from sweeps.analysis.figures.costs import time_spent, timeline, utilization
from sweeps.analysis.figures.hyperparameters import contour, importance, slices
from sweeps.analysis.figures.learning_curves import history, learning_curves, metrics
from sweeps.analysis.figures.parallel_coordinates import parallel_coordinates
from sweeps.analysis.figures.style import why_blank as why_blank

FIGURES: Mapping[str, Callable[..., Any]] = {
    figure.__name__: figure
    for figure in (
        *(front, learning_curves, metrics, history, seeds),
        *(importance, slices, contour, parallel_coordinates),
        *(time_spent, utilization, timeline),
    )
}
"""All of them by name. `report/sections.py` says which section of the report shows which."""
