"""What went wrong: failed and diverged trials by their cause, and by where in the space they fall."""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from optuna.distributions import FloatDistribution, IntDistribution
from plotly.subplots import make_subplots
from scipy.stats import hypergeom

from sweeps.analysis import look
from sweeps.fidelity import Tried, tried
from sweeps.results import Sweep
from sweeps.rows import TrialRow
from training.values import Knob
from training.words import count, short

SURE = 0.05
"""Of a region: the probability that such a one, or a better one, shows by chance in any knob."""
MOST_CAUSES = 4


@dataclass(frozen=True)
class Region:
    """Where in the space a kind of trial falls."""

    knob: str
    where: str
    """`> 0.12`, `= relu`."""
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
            f"{self.bad} of {self.of_bad} have {self.knob} {self.where} "
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
    groups: dict[tuple[str, str], list[TrialRow]] = defaultdict(list)
    for trial in sweep.record.trials:
        if trial.status in ("failed", "diverged"):
            groups[trial.status, _without_numbers(trial.reason)].append(trial)
    well = [trial for trial in sweep.record.trials if trial.status in ("finished", "pruned")]
    wrong = [trial for of_cause in groups.values() for trial in of_cause]
    space = tried([*well, *wrong])
    found = [
        Cause(status, _shared(trials, reason), trials, _region(space, trials, well))
        for (status, reason), trials in groups.items()
    ]
    return sorted(found, key=lambda cause: -len(cause.trials))


def failures(sweep: Sweep) -> go.Figure:
    """Where failed and diverged trials lie, along the knob that tells them best from the others."""
    title, found = "Where trials went wrong", causes(sweep)
    if not found:
        return look.blank(title, "No trial failed or diverged.")
    telling = [cause for cause in found if cause.region is not None][:MOST_CAUSES]
    if not telling:
        return look.blank(title, "No region stands out: they lie among those that ended well.")
    figure = make_subplots(rows=len(telling), cols=1, vertical_spacing=0.3 / len(telling))
    space = tried(sweep.record.trials)
    ended_well = [trial for trial in sweep.record.trials if trial.status in ("finished", "pruned")]
    for row, cause in enumerate(telling, start=1):
        assert cause.region is not None
        knob, wrong = cause.region.knob, look.MARKS["failed" if cause.status == "failed" else "diverged"]
        for name, trials, mark in (
            ("ended well", ended_well, look.MARKS["finished"]),
            (cause.status, cause.trials, wrong),
        ):
            there = [trial for trial in trials if knob in space.params[trial.number]]
            values = [space.params[trial.number][knob] for trial in there]
            is_range = isinstance(space.ranges[knob], FloatDistribution | IntDistribution)
            figure.add_trace(
                go.Box(
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
                ),
                row=row,
                col=1,
            )
        log = bool(getattr(space.ranges[knob], "log", False))
        figure.update_xaxes(title_text=knob, type="log" if log else None, row=row, col=1)
        if cause.region.where[0] in "<>":
            edge = {"color": look.BLACK, "dash": "dash", "width": 1.5}
            figure.add_vline(float(cause.region.where.split()[1]), line=edge, row=row, col=1)
    says = "A mark is a trial, heights within a row mean nothing; the line is the edge of the region."
    return look.dress(figure, title, says, height=110 + 210 * len(telling)).update_layout(showlegend=False)


def _region(space: Tried, wrong: Sequence[TrialRow], well: Sequence[TrialRow]) -> Region | None:
    """The half of one knob, or the one value, that tells trials best from those that ended well.

    By the hypergeometric test (Fisher's exact test, one-sided), times the number of regions looked at
    (Bonferroni): what might as well be chance is no region.
    """
    bad, others = _values(space, wrong), _values(space, well)
    regions = list(_halves(space, bad, others))
    if not regions:
        return None
    inside = np.array([[of_bad, of_others] for _, _, of_bad, of_others in regions])
    chance = hypergeom.sf(inside[:, 0] - 1, len(bad) + len(others), len(bad), inside.sum(axis=1))
    place = int(np.argmin(chance))
    if chance[place] * len(regions) > SURE:
        return None
    knob, where, inside_bad, inside_others = regions[place]
    return Region(knob, where, inside_bad, len(bad), inside_others, len(others))


def _values(space: Tried, trials: Sequence[TrialRow]) -> list[Mapping[str, Knob]]:
    return [space.params[trial.number] for trial in trials]


def _halves(
    space: Tried, bad: Sequence[Mapping[str, Knob]], others: Sequence[Mapping[str, Knob]]
) -> Iterator[tuple[str, str, int, int]]:
    """Knob, region, and how many of both lie in it."""
    for knob, of_knob in space.ranges.items():
        mine, theirs = ([point[knob] for point in points if knob in point] for points in (bad, others))
        if not isinstance(of_knob, FloatDistribution | IntDistribution):
            for value in dict.fromkeys([*mine, *theirs]):
                yield knob, f"= {short(value)}", mine.count(value), theirs.count(value)
            continue
        low, high = sorted(float(v) for v in mine), sorted(float(v) for v in theirs)
        edges = sorted({*low, *high})
        for before, after in itertools.pairwise(edges):
            middle = math.sqrt(before * after) if of_knob.log else (before + after) / 2
            edge = _rounded(before, middle, after)
            below_bad, below_others = bisect_left(low, edge), bisect_left(high, edge)
            yield knob, f"< {edge:g}", below_bad, below_others
            yield knob, f"> {edge:g}", len(low) - below_bad, len(high) - below_others


def _rounded(before: float, middle: float, after: float) -> float:
    """A number between two, of as few digits as tell them apart."""
    for digits in range(1, 17):
        if before < (edge := float(f"{middle:.{digits}g}")) <= after:
            return edge
    return after


def _without_numbers(reason: str) -> str:
    return re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", reason)


def _shared(trials: Sequence[TrialRow], reason: str) -> str:
    reasons = {trial.reason for trial in trials}
    return reasons.pop() if len(reasons) == 1 else reason


def words(cause: Cause) -> str:
    """`11 diverged: val_acc was nan in epoch N`."""
    return f"{count(len(cause.trials), 'trial')} {cause.status}: {cause.reason or 'no reason was recorded'}"
