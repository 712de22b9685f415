"""Learning curves, and how many trials each rung pruned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.objective import Objective
from sweeps.record.trials import TrialRow

MOST_CURVES = 200
MOST_RUNGS = 10


def rungs(sweep: Sweep) -> list[int]:
    """Epochs at which trials were pruned; the most common ones where there are many."""
    pruned = Counter(max(t.epochs) for t in sweep.record.searched if t.status == "pruned" and t.epochs)
    return sorted(epoch for epoch, _ in pruned.most_common(MOST_RUNGS))


def learning_curves(sweep: Sweep) -> go.Figure:
    """The score of each trial over its epochs, and where it ended; rungs as lines, the best one heavy."""
    metric = sweep.record.info.metric
    title = f"Learning curves: {metric}"
    trials = [trial for trial in sweep.record.searched if trial.epochs]
    if not trials:
        return style.blank(title, style.NO_EPOCH)
    shown = style.thinned(trials, MOST_CURVES, sweep.record.leaders(MOST_CURVES))
    figure = go.Figure()
    for status in style.MARKS:
        if of_status := [trial for trial in shown if trial.status == status]:
            _add_curves(figure, of_status)
    if (best := sweep.record.best()) is not None:
        _add_best(figure, best, sweep.record.objective)
    for epoch in rungs(sweep):
        figure.add_vline(epoch, line={"color": style.GREY, "dash": "dot", "width": 1})
        figure.add_annotation(
            x=epoch, y=1, yref="paper", yanchor="bottom", text=f"rung {epoch}", showarrow=False, font_size=11
        )
    last = max(max(trial.epochs) for trial in shown)
    figure.update_xaxes(title_text="epoch", rangemode="tozero", dtick=1 if last <= 12 else None)
    figure.update_yaxes(title_text=metric)
    caption = "A curve is a trial. The mark at its end shows its status."
    caption += style.cut(figure, (row.score for trial in shown for row in trial.epochs.values()))
    if len(shown) < len(trials):
        caption += (
            f" {len(shown)} of {len(trials):,} trials are drawn: the best, and an even sample of the others."
        )
    return style.finish(figure, title, caption, height=520).update_layout(legend_y=1.05)


def rung_survival(sweep: Sweep) -> go.Figure:
    """How many trials reached each rung, and what happened to them there."""
    title, trials = "Trials per rung", sweep.record.searched
    last = max((max(trial.epochs, default=0) for trial in trials), default=0)
    if not last:
        return style.blank(title, style.NO_EPOCH)
    end = sweep.record.info.max_epochs or last
    stages = sorted({0, *rungs(sweep), end})
    if len(stages) < 3:
        return style.blank(title, "No trial was pruned.")
    names = ["started", *(f"epoch {epoch}" for epoch in stages[1:-1]), f"epoch {end} (the end)"]
    reached = [{t.number: t for t in trials if max(t.epochs, default=0) >= epoch} for epoch in stages]
    continued = [*(len(following) for following in reached[1:]), 0]
    figure = go.Figure(_bar("continued", names, continued, style.CONTINUED))
    for status, mark in style.MARKS.items():
        ended = [
            sum(trial.status == status for number, trial in here.items() if number not in following)
            for here, following in zip(reached, [*reached[1:], {}], strict=True)
        ]
        if any(ended):
            figure.add_trace(_bar(status, names, ended, mark))
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title_text="trials that reached the rung")
    caption = "A bar is all trials that reached the rung. Its parts show their status before the next rung."
    return style.finish(figure, title, caption)


def _bar(name: str, x: Sequence[str], y: Sequence[int], mark: style.Mark) -> go.Bar:
    return go.Bar(
        name=name,
        x=x,
        y=y,
        text=[f"{number:,}" if number else "" for number in y],
        textangle=0,
        textposition="inside",
        textfont={"color": "white", "shadow": "0 0 3px black, 0 0 3px black"},
        marker={"color": mark.color, "pattern": mark.filling},
    )


def _add_curves(figure: go.Figure, trials: Sequence[TrialRow]) -> None:
    """All of one status: as one line with gaps, and a mark where each ended."""
    status = trials[0].status
    mark = style.MARKS[status]
    points: list[tuple[int | None, float | None, str]] = []
    ends: list[tuple[int | None, float | None]] = []
    for trial in trials:
        of_trial = [(epoch, _finite(trial.epochs[epoch].score)) for epoch in sorted(trial.epochs)]
        points += [(epoch, score, f"trial {trial.number}") for epoch, score in of_trial]
        points.append((None, None, ""))
        # What diverged is marked where its score was last finite.
        ends.append(next(((e, score) for e, score in reversed(of_trial) if score is not None), (None, None)))
    epochs, scores, hover = zip(*points, strict=True)
    last_epochs, last_scores = zip(*ends, strict=True)
    line = {"color": mark.color, "dash": mark.dash, "width": 1.2}
    common = {"legendgroup": status}
    figure.add_trace(
        go.Scatter(
            x=epochs, y=scores, text=hover, mode="lines", line=line, opacity=0.6, showlegend=False, **common
        )
    )
    figure.add_trace(
        go.Scatter(
            x=last_epochs,
            y=last_scores,
            text=[f"trial {trial.number}, {status}" for trial in trials],
            mode="markers",
            name=f"{status} ({len(trials)})",
            marker=mark.points(9),
            **common,
        )
    )


def _add_best(figure: go.Figure, best: TrialRow, objective: Objective) -> None:
    epochs = sorted(best.epochs)
    is_top = [epoch == best.best_epoch(objective) for epoch in epochs]
    figure.add_trace(
        go.Scatter(
            x=epochs,
            y=[_finite(best.epochs[epoch].score) for epoch in epochs],
            mode="lines+markers",
            name=f"best: trial {best.number}",
            line={"color": style.BLACK, "width": 3},
            marker={
                "symbol": ["star" if top else "circle" for top in is_top],
                "size": [15 if top else 1 for top in is_top],
            },
        )
    )


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None
