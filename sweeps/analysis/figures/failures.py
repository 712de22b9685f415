"""What went wrong: failed and diverged trials by their cause, and by where in the space they fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from optuna.distributions import FloatDistribution, IntDistribution
from plotly.subplots import make_subplots

from sweeps.analysis.failure_regions import DeadRegion, by_cause, dead_regions_of
from sweeps.analysis.fidelity import Tried, tried
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.record.trials import TrialRow

LEAST = 3
"""Of fewer trials nothing can be told."""
MOST_CAUSES = 4


@dataclass(frozen=True)
class Region:
    """Where in the space a kind of trial falls."""

    dead: DeadRegion
    bad: int
    """Trials of the kind that lie in it."""
    of_bad: int
    others: int
    """Trials that ended well and lie in it."""
    of_others: int

    @property
    def words(self) -> str:
        """`9 of 11 have lr > 0.12 (and 2 of the 29 that ended well)`."""
        return (
            f"{self.bad} of {self.of_bad} have {self.dead} "
            f"(and {self.others or 'none'} of the {self.of_others} that ended well)"
        )


@dataclass(frozen=True)
class Cause:
    """Trials that went wrong alike."""

    status: str
    reason: str
    """What is the same in all of them; numbers that differ are N."""
    trials: Sequence[TrialRow]
    region: Region | None
    """None where no region stands out."""


def causes(sweep: Sweep) -> list[Cause]:
    """Why trials failed or diverged, the commonest first."""
    well = [trial for trial in sweep.record.trials if trial.status in ("finished", "pruned")]
    found = dead_regions_of(sweep.record)
    grouped = [
        Cause(why.status, _shared(trials, why.reason), trials, _region(found, trials, well))
        for why, trials in by_cause(sweep.record.trials).items()
    ]
    return sorted(grouped, key=lambda cause: -len(cause.trials))


def failures(sweep: Sweep) -> go.Figure:
    """Where failed and diverged trials lie, along the hyperparameter that tells them best from the others."""
    title, found = "Where trials went wrong", causes(sweep)
    if not found:
        return style.blank(title, "No trial failed or diverged.")
    telling = [cause for cause in found if cause.region is not None][:MOST_CAUSES]
    ended_well = [trial for trial in sweep.record.trials if trial.status in ("finished", "pruned")]
    if not telling:
        among = "they lie among those that ended well" if ended_well else "none ended well beside them"
        return style.blank(title, f"No region stands out: {among}.")
    figure = make_subplots(rows=len(telling), cols=1, vertical_spacing=0.3 / len(telling))
    space = tried(sweep.record.trials)
    for row, cause in enumerate(telling, start=1):
        assert cause.region is not None
        hyperparameter, wrong = (
            cause.region.dead.hyperparameter,
            style.MARKS["failed" if cause.status == "failed" else "diverged"],
        )
        for name, trials, mark in (
            ("ended well", ended_well, style.MARKS["finished"]),
            (cause.status, cause.trials, wrong),
        ):
            figure.add_trace(_marks(name, trials, mark, hyperparameter, space), row=row, col=1)
        log = bool(getattr(space.ranges[hyperparameter], "log", False))
        figure.update_xaxes(title_text=hyperparameter, type="log" if log else None, row=row, col=1)
        if cause.region.dead.side is not None:
            edge = {"color": style.BLACK, "dash": "dash", "width": 1.5}
            figure.add_vline(cause.region.dead.limit, line=edge, row=row, col=1)
    says = "A mark is a trial, heights within a row mean nothing; the line is the edge of the region."
    return style.dress(figure, title, says, height=110 + 210 * len(telling)).update_layout(showlegend=False)


def _marks(
    name: str, trials: Sequence[TrialRow], mark: style.Mark, hyperparameter: str, space: Tried
) -> go.Box:
    """A row of trials by their values of a hyperparameter: a box of which only its points show."""
    there = [trial for trial in trials if hyperparameter in space.params[trial.number]]
    values = [space.params[trial.number][hyperparameter] for trial in there]
    is_range = isinstance(space.ranges[hyperparameter], FloatDistribution | IntDistribution)
    return go.Box(
        x=values if is_range else [str(value) for value in values],
        y=[f"{name} ({len(there)})"] * len(there),
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


def _region(
    regions: Sequence[DeadRegion], wrong: Sequence[TrialRow], well: Sequence[TrialRow]
) -> Region | None:
    """Of the regions that the advice would cut off, the one that holds the most of these, half at least."""
    found = [
        Region(region, len(inside), len(wrong), sum(region.holds(trial) for trial in well), len(well))
        for region in regions
        if len(inside := [trial for trial in wrong if region.holds(trial)]) >= max(LEAST, len(wrong) / 2)
    ]
    return max(found, key=lambda region: (region.bad, -region.others), default=None)


def _shared(trials: Sequence[TrialRow], reason: str) -> str:
    reasons = {trial.reason for trial in trials}
    return reasons.pop() if len(reasons) == 1 else reason


def words(cause: Cause) -> str:
    """`11 diverged: val_acc was nan in epoch N`."""
    return f"{count(len(cause.trials), 'trial')} {cause.status}: {cause.reason or 'no reason was recorded'}"
