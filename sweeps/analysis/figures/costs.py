"""What a sweep cost, in time and devices, and where that went."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import duration
from sweeps.record.trials import TrialRow
from sweeps.training.profiling.time_breakdown import PARTS

MOST_BARS = 3000
BINS = 120
GAP_S = 5.0
"""Between two epochs of a trial, above which it did not train."""


@dataclass(frozen=True)
class Spent:
    """What a sweep took."""

    epochs: int
    seconds: float
    """That trials trained, added up."""
    devices: str
    """GPU or CPU."""
    device_hours: float
    saved_epochs: int
    """That pruned trials would have trained more, to the end."""
    saved_hours: float
    """Of devices, likewise: each epoch as long as the trial's own."""
    start_up_s: float
    """From when a trial was proposed to when its first epoch began, added up."""
    parts: Mapping[str, float]
    """Part of the training to seconds, as far as the record says; `not measured` is the rest."""


def spent(sweep: Sweep) -> Spent:
    """What a sweep took, and what pruning saved of training everything to the end."""
    trials = sweep.record.trials
    settings = sweep.record.info.settings
    on_gpu = any(trial.place.get("gpu") for trial in trials)
    asked = settings.get("gpus_per_trial") if on_gpu else settings.get("cpus_per_trial")
    share = float(asked or 1)
    end = sweep.record.info.max_epochs or 0
    saved_epochs, saved_s = 0, 0.0
    for trial in sweep.record.searched:  # a rerun ends early only where nobody asks for it any more
        if trial.status == "pruned" and trial.epochs and (more := end - max(trial.epochs)) > 0:
            saved_epochs += more
            saved_s += more * _seconds(trial) / len(trial.epochs)
    seconds = math.fsum(map(_seconds, trials))
    return Spent(
        epochs=sum(len(trial.epochs) for trial in trials),
        seconds=seconds,
        devices="GPU" if on_gpu else "CPU",
        device_hours=seconds * share / 3600,
        saved_epochs=saved_epochs,
        saved_hours=saved_s * share / 3600,
        start_up_s=math.fsum(_start_up(sweep, trial) for trial in trials),
        parts=_parts(trials, seconds),
    )


def time_spent(sweep: Sweep) -> go.Figure:
    """Where the time of all trials went: parts of the training steps, start-up, and what was not measured."""
    title, found = "Where the time went", spent(sweep)
    if not found.seconds:
        return style.blank(title, "No epoch has been reported.")
    parts = {"start-up": found.start_up_s, **found.parts}
    parts = {name: seconds for name, seconds in parts.items() if seconds > 0}
    whole = sum(parts.values())
    unit, unit_s = _unit(max(parts.values()))
    figure = go.Figure(
        go.Bar(
            x=[seconds / unit_s for seconds in parts.values()],
            y=list(parts),
            orientation="h",
            text=[f"{100 * seconds / whole:.0f} %, {duration(seconds)}" for seconds in parts.values()],
            marker={"color": [style.GREY if n in ("start-up", "rest") else style.BLUE for n in parts]},
            textposition="outside",
            cliponaxis=False,
        )
    )
    longest = 1.3 * max(parts.values()) / unit_s
    figure.update_xaxes(title_text=f"{unit} of all trials together", range=[0, longest])
    figure.update_yaxes(autorange="reversed")
    says = (
        "Start-up: from when a trial was proposed to its first epoch. "
        "Rest: validation, logging, what was not measured."
    )
    figure = style.dress(figure, title, says, height=140 + 34 * len(parts))
    return figure.update_layout(showlegend=False)


def utilization(sweep: Sweep) -> go.Figure:
    """Per PC over time: how many trials trained, and how busy that kept its devices."""
    title = "Use of the PCs over time"
    spans = [
        (row.time - row.seconds, row.time, str(trial.place.get("pc", "unknown")), row.costs)
        for trial in sweep.record.trials
        for row in trial.epochs.values()
        if row.seconds > 0
    ]
    if not spans:
        return style.blank(title, "No epoch has been reported.")
    on_gpu = any("gpu_util_pct" in costs for *_, costs in spans)
    busy = "gpu_util_pct" if on_gpu else "cpu_busy_pct"
    first, last = min(begin for begin, *_ in spans), max(end for _, end, *_ in spans)
    edges = np.linspace(first, max(last, first + 1e-3), BINS + 1)
    moments = [_moment(second) for second in (edges[:-1] + edges[1:]) / 2]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.1)
    for place, pc in enumerate(sorted({pc for _, _, pc, _ in spans})):
        of_pc = [span for span in spans if span[2] == pc]
        training = _filled([(begin, end, 1.0) for begin, end, _, _ in of_pc], edges)
        known = [(begin, end, costs[busy]) for begin, end, _, costs in of_pc if busy in costs]
        held = _filled([(begin, end, 1.0) for begin, end, _ in known], edges)
        shares = np.divide(_filled(known, edges), held, out=np.full(BINS, np.nan), where=held > 0.02)
        line = {
            "color": style.PALETTE[place % len(style.PALETTE)],
            "dash": style.DASHES[place % len(style.DASHES)],
            "shape": "hvh",
        }
        figure.add_trace(
            go.Scatter(x=moments, y=training, name=pc, legendgroup=pc, line=line, mode="lines"), row=1, col=1
        )
        if known:
            rest = {"legendgroup": pc, "showlegend": False, "line": line, "mode": "lines"}
            figure.add_trace(go.Scatter(x=moments, y=shares, name=pc, **rest), row=2, col=1)
    figure.update_yaxes(title_text="trials training", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text=f"{'GPU' if on_gpu else 'CPU'} busy, %", range=[0, 105], row=2, col=1)
    says = "Above, trials that train at a time. Below, how busy one keeps its devices, on average."
    return style.dress(figure, title, says, height=520).update_layout(showlegend=True)


def timeline(sweep: Sweep) -> go.Figure:
    """When each process trained which trial."""
    title = "Timeline"
    bars = [(trial, begin, end) for trial in sweep.record.trials for begin, end in _stretches(trial)]
    if not bars:
        return style.blank(title, "No epoch has been reported.")
    left_out = len(bars) - MOST_BARS
    bars = sorted(bars, key=lambda bar: bar[2] - bar[1])[-MOST_BARS:]
    lanes = sorted({_lane(trial) for trial, _, _ in bars})
    figure = go.Figure()
    for status, mark in style.MARKS.items():
        of_status = [bar for bar in bars if bar[0].status == status]
        if of_status:
            figure.add_trace(
                go.Bar(
                    base=[_moment(begin) for _, begin, _ in of_status],
                    x=[
                        1000 * (end - begin) for _, begin, end in of_status
                    ],  # milliseconds, on an axis of dates
                    y=[_lane(trial) for trial, _, _ in of_status],
                    orientation="h",
                    name=status,
                    text=[str(trial.number) for trial, _, _ in of_status],
                    textposition="inside",
                    insidetextanchor="middle",
                    hovertemplate="trial %{text}<extra></extra>",
                    marker={
                        "color": mark.color,
                        "pattern": style.pattern(mark),
                        "line": {"color": "white", "width": 0.5},
                    },
                )
            )
    figure.update_layout(barmode="overlay", uniformtext={"minsize": 9, "mode": "hide"})
    figure.update_xaxes(type="date")
    figure.update_yaxes(autorange="reversed", categoryorder="array", categoryarray=lanes)
    says = "A row is a process that trained, a bar a trial in it, with its number; a gap is no training."
    if left_out > 0:
        says += f" The {left_out:,} shortest bars are left out."
    return style.dress(figure, title, says, height=min(150 + 34 * len(lanes), 900))


def _parts(trials: Sequence[TrialRow], seconds: float) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for trial in trials:
        for row in trial.epochs.values():
            for part in PARTS:
                found[part.replace("_", " ")] += row.costs.get(f"{part}_pct", 0.0) / 100 * row.seconds
    known = {name: value for name, value in found.items() if value > 0}
    return {**known, "rest": max(0.0, seconds - sum(known.values()))}


def _seconds(trial: TrialRow) -> float:
    return math.fsum(row.seconds for row in trial.epochs.values())


def _start_up(sweep: Sweep, trial: TrialRow) -> float:
    """Seconds until its first epoch; 0 where the sweep stood still meanwhile."""
    if not trial.epochs:
        return 0.0
    row = trial.epochs[min(trial.epochs)]
    begun = row.time - row.seconds
    runs = [run.started for run in sweep.record.info.runs if run.started is not None]
    return 0.0 if any(trial.start < started < begun for started in runs) else max(0.0, begun - trial.start)


def _stretches(trial: TrialRow) -> Iterator[tuple[float, float]]:
    """When it trained, from and to, epochs that follow each other together."""
    begin = end = math.nan
    for row in sorted(trial.epochs.values(), key=lambda row: row.time):
        if math.isnan(begin):
            begin = row.time - row.seconds
        elif row.time - row.seconds - end > GAP_S:
            yield begin, end
            begin = row.time - row.seconds
        end = row.time
    if not math.isnan(begin):
        yield begin, end


def _filled(spans: Sequence[tuple[float, float, float]], edges: np.ndarray) -> np.ndarray:
    """Mean of the weights of spans (from, to, weight) over each bin."""
    if not spans:
        return np.zeros(len(edges) - 1)
    begins, ends, weights = np.array(spans).T
    until = _ramp(begins, weights, edges) - _ramp(ends, weights, edges)
    return np.asarray(np.diff(until) / np.diff(edges))


def _ramp(starts: np.ndarray, weights: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Sum of weight x time since the start, of all that started before: of n starts in n log n."""
    starts = starts - at[0]  # of small numbers: seconds since 1970 leave few digits to the sum
    order = np.argsort(starts)
    before = np.searchsorted(starts[order], at - at[0])
    weight = np.concatenate([[0.0], np.cumsum(weights[order])])[before]
    moment = np.concatenate([[0.0], np.cumsum((weights * starts)[order])])[before]
    return np.asarray(weight * (at - at[0]) - moment)


def _unit(seconds: float) -> tuple[str, float]:
    """The unit in which a time is a number that one can read, and its seconds."""
    if seconds < 120:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 7200 else ("hours", 3600.0)


def _lane(trial: TrialRow) -> str:
    pc, pid = trial.place.get("pc", "unknown"), trial.place.get("pid")
    return f"{pc}, process {pid}" if pid is not None else str(pc)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
