"""Trials that failed, diverged or are infeasible, by their cause and by where in the space they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sweeps.analysis.failure_regions import DeadRegion, by_cause, dead_regions_of
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.analysis.tried_values import Tried, tried
from sweeps.common.formatting import count
from sweeps.record.trials import ENDED_WELL, Status, TrialRow

LEAST = 3
"""Trials that a region of a cause holds, at least."""
MOST_CAUSES = 4


@dataclass(frozen=True)
class CauseOfFailures:
    """Trials that failed or diverged alike."""

    status: Status
    reason: str
    """What is the same in all of them; numbers that differ are N."""
    trials: Sequence[TrialRow]
    region: DeadRegion | None
    """Where half of them or more lie; None where there is no such region."""
    where: str
    """`9 of 11 have lr > 0.12 (and 2 of the 29 that ended well)`; "" without a region."""


def causes(sweep: Sweep) -> list[CauseOfFailures]:
    """Why trials failed or diverged, the most common cause first."""
    regions, well = dead_regions_of(sweep.record), _ended_well(sweep)
    found = []
    for why, trials in by_cause(sweep.record.trials).items():
        reasons = {trial.reason for trial in trials}
        reason = reasons.pop() if len(reasons) == 1 else why.reason
        held = [(sum(map(each.holds, trials)), sum(map(each.holds, well)), each) for each in regions]
        held = [one for one in held if one[0] >= max(LEAST, len(trials) / 2)]
        # Of the regions that the advice would exclude, the one with the most of these trials.
        bad, others, region = max(held, key=lambda one: (one[0], -one[1]), default=(0, 0, None))
        also = f"{others or 'none'} of the {len(well)} that ended well"
        where = f"{bad} of {len(trials)} have {region} (and {also})" if region else ""
        found.append(CauseOfFailures(trials[0].status, reason, trials, region, where))
    return sorted(found, key=lambda cause: -len(cause.trials))


def failures(sweep: Sweep) -> go.Figure:
    """Where failed and diverged trials lie, along the hyperparameter that separates them best from others."""
    title, found = "Failures by region", causes(sweep)
    if not found:
        return style.blank(title, "No trial failed, diverged or is infeasible.")
    placed = [(cause, cause.region) for cause in found if cause.region is not None][:MOST_CAUSES]
    well = _ended_well(sweep)
    if not placed:
        few = count(sum(len(cause.trials) for cause in found), "failure")
        return style.blank(title, f"{few}: no region holds more of them than chance would put there.")
    figure = make_subplots(rows=len(placed), cols=1, vertical_spacing=0.3 / len(placed))
    space = tried(sweep.record.trials)
    for row, (cause, region) in enumerate(placed, start=1):
        name = region.hyperparameter
        rows: tuple[tuple[str, Sequence[TrialRow], style.Mark], ...] = (
            ("ended well", well, style.MARKS["finished"]),
            (cause.status, cause.trials, style.MARKS[cause.status]),
        )
        for label, trials, mark in rows:
            figure.add_trace(_marks(label, trials, mark, name, space), row=row, col=1)
        figure.update_xaxes(**style.axis(space, name), row=row, col=1)
        if region.side is not None:
            edge = {"color": style.BLACK, "dash": "dash", "width": 1.5}
            figure.add_vline(region.limit, line=edge, row=row, col=1)
    caption = "A mark is a trial; its height in a row has no meaning. The dashed line is the region's edge."
    return style.finish(figure, title, caption, height=110 + 210 * len(placed), legend=False)


def _ended_well(sweep: Sweep) -> list[TrialRow]:
    return [trial for trial in sweep.record.trials if trial.status in ENDED_WELL]


def _marks(label: str, trials: Sequence[TrialRow], mark: style.Mark, name: str, space: Tried) -> go.Box:
    """A row of trials by their values of a hyperparameter: a box of which only its points show."""
    there = [trial for trial in trials if name in space.params[trial.number]]
    return go.Box(
        x=style.values(space, name, (trial.number for trial in there)),
        y=[f"{label} ({len(there)})"] * len(there),
        text=[f"trial {trial.number}" for trial in there],
        orientation="h",
        boxpoints="all",
        jitter=0.9,
        pointpos=0,
        fillcolor="rgba(0,0,0,0)",
        line={"color": "rgba(0,0,0,0)"},
        marker={"color": mark.color, "symbol": mark.symbol, "size": 8},
        showlegend=False,
    )
