"""What was stopped early, and when: learning curves and the survival of trials."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.objective import Objective
from sweeps.record.trials import TrialRow

MOST_CURVES = 200
MOST_RUNGS = 10


def rungs(sweep: Sweep) -> list[int]:
    """Epochs at which trials were stopped, whoever decided it; the commonest where there are many."""
    stopped = Counter(max(t.epochs) for t in sweep.record.searched if t.status == "pruned" and t.epochs)
    return sorted(epoch for epoch, _ in stopped.most_common(MOST_RUNGS))


def learning_curves(sweep: Sweep) -> go.Figure:
    """The score of each trial over its epochs, and where it stopped; rungs as lines, the best one heavy."""
    metric = sweep.record.info.metric
    title = f"Learning curves: {metric}"
    trials = [trial for trial in sweep.record.searched if trial.epochs]
    if not trials:
        return style.blank(title, "No epoch has been reported.")
    shown = style.thinned(trials, MOST_CURVES, sweep.record.leaders(MOST_CURVES))
    figure = go.Figure()
    for status in style.MARKS:
        of_status = [trial for trial in shown if trial.status == status]
        if of_status:
            _add_curves(figure, of_status)
    best = sweep.record.best()
    if best is not None:
        _add_best(figure, best, sweep.record.objective)
    for epoch in rungs(sweep):
        figure.add_vline(epoch, line={"color": style.GREY, "dash": "dot", "width": 1})
        figure.add_annotation(
            x=epoch, y=1, yref="paper", yanchor="bottom", text=f"rung {epoch}", showarrow=False, font_size=11
        )
    last = max(max(trial.epochs) for trial in shown)
    figure.update_xaxes(title_text="epoch", rangemode="tozero", dtick=1 if last <= 12 else None)
    figure.update_yaxes(title_text=metric)
    says = "A curve is a trial; the mark at its end is where it stopped, and how."
    says += style.cut(figure, (row.score for trial in shown for row in trial.epochs.values()))
    if len(shown) < len(trials):
        says += f" {len(shown)} of {len(trials):,} are drawn: the best ones, and the others evenly."
    figure = style.dress(figure, title, says, height=520)
    return figure.update_layout(legend_y=1.05)


def rung_survival(sweep: Sweep) -> go.Figure:
    """How many trials came to each rung, and what became of them there."""
    title, trials = "Survival from rung to rung", sweep.record.searched
    if not any(trial.epochs for trial in trials):
        return style.blank(title, "No epoch has been reported.")
    last = max(max(trial.epochs, default=0) for trial in trials)
    end = sweep.record.info.max_epochs or last
    stages = sorted({0, *rungs(sweep), end})
    if len(stages) < 3:
        return style.blank(title, "No trial was stopped early.")
    names = ["begun", *(f"epoch {epoch}" for epoch in stages[1:-1]), f"epoch {end} (the end)"]
    came = [_came(trials, epoch) for epoch in stages]
    went_on = [*(len(following) for following in came[1:]), 0]
    figure = go.Figure()
    figure.add_trace(_bar("went on", names, went_on, style.WENT_ON))
    for status, mark in style.MARKS.items():
        ended: list[int] = []
        for here, following in zip(came, [*came[1:], []], strict=True):
            gone = {trial.number for trial in here} - {trial.number for trial in following}
            ended.append(sum(trial.number in gone and trial.status == status for trial in here))
        if any(ended):
            figure.add_trace(_bar(f"then {status}", names, ended, mark))
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title_text="trials that came so far")
    says = "A bar is all trials that came so far; its parts are what became of them before the next rung."
    return style.dress(figure, title, says)


def _came(trials: Sequence[TrialRow], epoch: int) -> list[TrialRow]:
    return [trial for trial in trials if max(trial.epochs, default=0) >= epoch]


def _bar(name: str, x: Sequence[str], y: Sequence[int], mark: style.Mark) -> go.Bar:
    text = [f"{number:,}" if number else "" for number in y]
    font = {"color": "white", "shadow": "0 0 3px black, 0 0 3px black"}
    marker = {"color": mark.color, "pattern": style.pattern(mark)}
    return go.Bar(
        name=name, x=x, y=y, text=text, marker=marker, textangle=0, textposition="inside", textfont=font
    )


def _add_curves(figure: go.Figure, trials: Sequence[TrialRow]) -> None:
    """All of one status: as one line with gaps, and a mark where each ended."""
    status = trials[0].status
    mark = style.MARKS[status]
    x: list[float | None] = []
    y: list[float | None] = []
    hover: list[str] = []
    for trial in trials:
        for epoch in sorted(trial.epochs):
            x.append(epoch)
            y.append(_finite(trial.epochs[epoch].score))
            hover.append(f"trial {trial.number}")
        x.append(None)
        y.append(None)
        hover.append("")
    line = {"color": mark.color, "dash": mark.dash, "width": 1.2}
    figure.add_trace(
        go.Scatter(
            x=x, y=y, text=hover, mode="lines", line=line, opacity=0.6, legendgroup=status, showlegend=False
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[_at_end(trial, lambda epoch, _: epoch) for trial in trials],
            y=[_at_end(trial, lambda _, score: score) for trial in trials],
            text=[f"trial {trial.number}, {status}" for trial in trials],
            mode="markers",
            name=f"{status} ({len(trials)})",
            marker={
                "color": mark.color,
                "symbol": mark.symbol,
                "size": 9,
                "line": {"width": 2, "color": mark.color},
            },
            legendgroup=status,
        )
    )


def _at_end(trial: TrialRow, pick: Callable[[float, float], float]) -> float | None:
    """Of the last epoch with a finite score: what diverged has no other place."""
    finite = [epoch for epoch, row in trial.epochs.items() if math.isfinite(row.score)]
    return pick(max(finite), trial.epochs[max(finite)].score) if finite else None


def _add_best(figure: go.Figure, best: TrialRow, objective: Objective) -> None:
    epochs = sorted(best.epochs)
    top = best.best_epoch(objective)
    figure.add_trace(
        go.Scatter(
            x=epochs,
            y=[_finite(best.epochs[epoch].score) for epoch in epochs],
            mode="lines+markers",
            name=f"best: trial {best.number}",
            line={"color": style.BLACK, "width": 3},
            marker={
                "symbol": ["star" if epoch == top else "circle" for epoch in epochs],
                "size": [15 if epoch == top else 1 for epoch in epochs],
            },
        )
    )


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None
