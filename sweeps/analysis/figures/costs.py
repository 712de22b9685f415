"""What a sweep cost, in time and devices, and what that was spent on."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import duration
from sweeps.record.limits import held_s
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.training.time_breakdown import PARTS

MOST_BARS = 3000
BINS = 120
NOT_RECORDED = {"pc": "PC not recorded", "pid": "not recorded"}


@dataclass(frozen=True)
class Spent:
    """Epochs, time and device time of a sweep."""

    epochs: int
    seconds: float
    """Of training, the sum of all trials."""
    devices: str
    """GPU or CPU."""
    device_hours: float
    saved_epochs: int
    """That pruned trials would still have trained."""
    saved_hours: float
    """Of devices, likewise, by the mean epoch of each trial; without those that may have a start in them."""
    start_up_s: float
    """From a trial's proposal to the start of its first epoch, the sum of all trials."""
    parts: Mapping[str, float]
    """Part of the training to seconds, as far as it was measured, and `rest`."""


def spent(record: Record) -> Spent:
    """What a sweep took, and what pruning saved."""
    trials, settings = record.trials, record.info.settings
    seconds = math.fsum(trial.spent_seconds for trial in trials)
    on_gpu = any(trial.place.get("gpu") for trial in trials)
    share = float(settings.cpus_per_trial)
    if on_gpu:
        share = held_s(record) / (seconds or 1) * max(1.0, settings.gpus_per_trial or 1.0)
    share *= settings.workers_per_trial
    end = record.info.max_epochs or 0
    saved_epochs, saved_s = 0, 0.0
    for trial in record.searched:  # a rerun is pruned only where it is no longer asked for
        if trial.status == "pruned" and trial.epochs and (more := end - max(trial.epochs)) > 0:
            saved_epochs += more
            # The first epoch of a process may have the start of a program in it.
            first = {place["after_epoch"] + 1 for place in trial.places}
            later = [row.seconds for epoch, row in trial.epochs.items() if epoch not in first]
            saved_s += more * (fmean(later) if later else trial.seconds / len(trial.epochs))
    return Spent(
        epochs=sum(trial.spent_epochs for trial in trials),
        seconds=seconds,
        devices="GPU" if on_gpu else "CPU",
        device_hours=seconds * share / 3600,
        saved_epochs=saved_epochs,
        saved_hours=saved_s * share / 3600,
        start_up_s=math.fsum(_start_up(record, trial) for trial in trials),
        parts=_parts(trials, seconds),
    )


def time_spent(sweep: Sweep) -> go.Figure:
    """Time of all trials by activity: parts of the training steps, start-up, and what was not measured."""
    title, found = "Time by activity", spent(sweep.record)
    if not found.seconds:
        return style.blank(title, style.NO_EPOCH)
    parts = {"start-up": found.start_up_s, **found.parts}
    parts = {name: seconds for name, seconds in parts.items() if seconds > 0}
    whole, longest = sum(parts.values()), max(parts.values())
    figure = go.Figure(
        go.Bar(
            x=list(parts.values()),
            y=list(parts),
            orientation="h",
            width=0.7,
            text=[f"{100 * seconds / whole:.0f} %, {duration(seconds)}" for seconds in parts.values()],
            marker={"color": [style.GREY if n in ("start-up", "rest") else style.BLUE for n in parts]},
            textposition="outside",
            cliponaxis=False,
        )
    )
    figure.update_xaxes(title_text="time, sum of all trials", showticklabels=False, range=[0, 1.3 * longest])
    figure.update_yaxes(autorange="reversed")
    caption = (
        "Start-up is the time from a trial's proposal to its first epoch. "
        "Rest is validation, logging and what was not measured."
    )
    return style.finish(figure, title, caption, height=140 + 34 * len(parts), legend=False)


def utilization(sweep: Sweep) -> go.Figure:
    """Per PC over time: how busy the trials kept its devices; where that was not measured, how many
    trained."""
    title = "Utilization of the PCs"
    spans = [span for span in _spans(sweep.record) if span.end > span.begin]
    if not spans:
        return style.blank(title, style.NO_EPOCH)
    busy = next(
        (each for each in ("gpu_util_pct", "cpu_busy_pct") if any(each in s.costs for s in spans)), ""
    )
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    edges = np.linspace(first, max(last, first + 1e-3), BINS + 1)
    moments = [_moment(second) for second in (edges[:-1] + edges[1:]) / 2]
    figure = go.Figure()
    for place, pc in enumerate(sorted({span.pc for span in spans})):
        of_pc = [span for span in spans if span.pc == pc and (not busy or busy in span.costs)]
        held = _filled([(span.begin, span.end, 1.0) for span in of_pc], edges)
        shown = held
        if busy:
            used = _filled([(span.begin, span.end, span.costs[busy]) for span in of_pc], edges)
            shown = np.divide(used, held, out=np.full(BINS, np.nan), where=held > 0.02)
        line = {**style.line(place), "shape": "hvh"}
        figure.add_trace(go.Scatter(x=moments, y=shown, name=pc, line=line, mode="lines"))
    if not busy:
        figure.update_yaxes(title_text="trials training", rangemode="tozero")
        return style.finish(figure, title, "Trials that train at the same time.", legend=True)
    device = "GPU" if busy == "gpu_util_pct" else "CPU"
    figure.update_yaxes(title_text=f"{device} busy, %", range=[0, 105])
    caption = f"How busy a trial kept its {device}s, the mean of those that trained at the time."
    return style.finish(figure, title, caption, legend=True)


def timeline(sweep: Sweep) -> go.Figure:
    """When each process trained which trial."""
    title = "Timeline of trials"
    bars = _bars(sweep.record)
    if not bars:
        return style.blank(title, style.NO_EPOCH)
    left_out = len(bars) - MOST_BARS
    bars = sorted(bars, key=lambda bar: bar.end - bar.begin)[-MOST_BARS:]
    lanes = sorted({bar.lane for bar in bars})
    figure = go.Figure()
    for status, mark in style.MARKS.items():
        if not (of_status := [bar for bar in bars if bar.trial.status == status]):
            continue
        line = {"color": style.WHITE, "width": 0.5}
        figure.add_trace(
            go.Bar(
                base=[_moment(bar.begin) for bar in of_status],
                x=[1000 * (bar.end - bar.begin) for bar in of_status],  # milliseconds, on an axis of dates
                y=[bar.lane for bar in of_status],
                orientation="h",
                name=status,
                text=[str(bar.trial.number) for bar in of_status],
                textposition="inside",
                insidetextanchor="middle",
                **style.hover(sweep.record, [bar.trial for bar in of_status]),
                marker={"color": mark.color, "pattern": mark.filling, "line": line},
            )
        )
    figure.update_layout(barmode="overlay", uniformtext={"minsize": 9, "mode": "hide"})
    figure.update_xaxes(type="date")
    figure.update_yaxes(autorange="reversed", categoryorder="array", categoryarray=lanes)
    caption = (
        "A row is a training process. A bar is a trial, with its number; in a gap no epoch was recorded."
    )
    if left_out > 0:
        caption += f" The {left_out:,} shortest bars are left out."
    return style.finish(figure, title, caption, height=min(150 + 34 * len(lanes), 900), spans=True)


def _parts(trials: Sequence[TrialRow], seconds: float) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for trial in trials:
        for *_, row in trial.every_report():
            for part in PARTS:
                found[part.replace("_", " ")] += row.costs.get(f"{part}_pct", 0.0) / 100 * row.seconds
    known = {name: value for name, value in found.items() if value > 0}
    return {**known, "rest": max(0.0, seconds - sum(known.values()))}


def _start_up(record: Record, trial: TrialRow) -> float:
    """Seconds from its proposal to its first epoch; 0 where the sweep was resumed meanwhile."""
    if not trial.epochs:
        return 0.0
    row = trial.epochs[min(trial.epochs)]
    begun = row.time - row.seconds
    runs = [run.started for run in record.info.runs if run.started is not None]
    return 0.0 if any(trial.start < started < begun for started in runs) else max(0.0, begun - trial.start)


class _Span(NamedTuple):
    """When and where a trial trained an epoch, or epochs that follow each other."""

    pc: str
    pid: str
    begin: float
    end: float
    costs: Mapping[str, float]
    trial: TrialRow

    @property
    def lane(self) -> str:
        """Its process."""
        return f"{self.pc}, process {self.pid}"


def _spans(record: Record) -> list[_Span]:
    """Of all epochs; one that an earlier run of the sweep left begins with the run that ended it."""
    runs, found = sorted([0.0, *(run.started or 0.0 for run in record.info.runs)]), list[_Span]()
    for trial in record.trials:
        for attempt, epoch, row in trial.every_report():
            begin = max(row.time - row.seconds, runs[max(0, bisect.bisect_left(runs, row.time) - 1)])
            place = {**NOT_RECORDED, **attempt.place_of(epoch)}
            pc, pid = (str(place[name]) for name in NOT_RECORDED)
            found.append(_Span(pc, pid, begin, row.time, row.costs, trial))
    return found


def _bars(record: Record) -> list[_Span]:
    """A process that trains another trial meanwhile, a pause, and the end of a run of the sweep end a bar."""
    info = record.info
    breaks = [run.started for run in info.runs if run.started is not None]
    breaks += [each.time for each in info.steered if each.command == "pause"]
    bars: list[_Span] = []
    for each in sorted(_spans(record), key=lambda span: (span.lane, span.end)):
        last = bars[-1] if bars else None
        is_same = last is not None and (last.lane, last.trial.number) == (each.lane, each.trial.number)
        stops = (*breaks, *(pause.began for pause in each.trial.pauses.values()))
        if last is not None and is_same and not any(last.end <= at <= each.begin for at in stops):
            bars[-1] = last._replace(end=each.end)
        else:
            bars.append(each)
    return bars


def _filled(spans: Sequence[tuple[float, float, float]], edges: np.ndarray) -> np.ndarray:
    """Mean of the weights of spans (from, to, weight) over each bin."""
    begins, ends, weights = np.array(spans).reshape(-1, 3).T
    overlaps_s = (
        np.clip(np.minimum(ends, last) - np.maximum(begins, first), 0.0, None)
        for first, last in itertools.pairwise(edges)
    )
    return np.array([overlap_s @ weights for overlap_s in overlaps_s]) / np.diff(edges)


def _moment(seconds: float) -> datetime:
    """In the zone of this PC, as all times of a report: plotly draws the hour, and leaves the zone out."""
    return datetime.fromtimestamp(seconds, UTC).astimezone()
