"""What the search found: the best over time, and which hyperparameters it hung on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from optuna.visualization import plot_contour, plot_parallel_coordinate, plot_slice
from plotly.subplots import make_subplots

from sweeps.analysis.fidelity import Fidelity, fidelity, trainables
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.common.objective import Objective
from sweeps.record.trials import TrialRow

NO_SCORE = "No epoch has been reported."
MOST_LINES, MOST_POINTS, MOST_CELLS = 300, 1000, 100
"""Trials in parallel coordinates, in a slice, and in a contour, which has a cell for each two of them."""
MOST_HYPERPARAMETERS, MOST_PAIRED = 8, 3
"""Hyperparameters with a slice, and hyperparameters of which each two have a contour."""
LETTER = 7
"""Pixels of a letter of an axis' name."""
AXIS = 76
"""Pixels between two parallel axes, at least: twelve of them fit on a page."""
HEIGHT = 220
"""Of a row of figures, in pixels: four rows and their words fit on a printed page."""


def history(sweep: Sweep) -> go.Figure:
    """The best score so far, against trials that ended and against epochs spent."""
    title = f"Best {sweep.record.info.metric} so far"
    ended = sorted((t for t in sweep.record.searched if t.end is not None), key=lambda t: (t.end, t.number))
    if not any(trial.best_score(sweep.record.objective) is not None for trial in sweep.record.searched):
        return style.blank(title, NO_SCORE)
    figure = make_subplots(rows=2, cols=1, vertical_spacing=0.2)
    _add_ended(figure, sweep, ended)
    spent, scores = _by_epochs(sweep)
    figure.add_trace(_steps("best of all epochs", spent, scores, "dash"), row=2, col=1)
    figure.update_xaxes(title_text="trials ended", row=1, col=1)
    figure.update_xaxes(title_text="epochs trained, of all trials together", row=2, col=1)
    figure.update_yaxes(title_text=sweep.record.info.metric)
    says = "Above, each trial by the best of its epochs. Below, what that took."
    says += style.cut(figure, (point for trace in figure.data for point in trace.y))
    return style.dress(figure, title, says, height=640)


def parallel_coordinates(sweep: Sweep) -> go.Figure:
    """A line per trial through its score and its hyperparameters."""
    found, title = fidelity(sweep.record), "Parallel coordinates"
    if found is None or not found.tried.ranges or len(found.scores) < 2:
        return style.blank(title, _why_not(found, trials=2, hyperparameters=1))
    figure = plot_parallel_coordinate(found.study(MOST_LINES), target_name=sweep.record.info.metric)
    for note in figure.layout.annotations:
        note.update(font_size=11, bgcolor="rgba(255, 255, 255, 0.7)")
    figure.update_layout(plot_bgcolor="#d6d6d6")  # the palest lines are nearly white
    shown = _shown(found, MOST_LINES, "lines")
    says = f"A line is a trial, coloured by its score, which is its first axis too: {found.words}{shown}."
    width = AXIS * (len(found.tried.ranges) + 1)
    return style.dress(figure, title, says, height=460, min_width=min(width, 1400))


def slices(sweep: Sweep) -> go.Figure:
    """The score against each hyperparameter by itself, the most important hyperparameters first."""
    found, title = fidelity(sweep.record), "Each hyperparameter by itself"
    if found is None or not found.tried.ranges or len(found.scores) < 2:
        return style.blank(title, _why_not(found, trials=2, hyperparameters=1))
    hyperparameters = _ranked(found)[:MOST_HYPERPARAMETERS]
    study = found.study(MOST_POINTS)
    rows = math.ceil(len(hyperparameters) / 2)
    figure = make_subplots(rows=rows, cols=2, vertical_spacing=0.3 / rows)
    for place, hyperparameter in enumerate(hyperparameters):
        row, column = place // 2 + 1, place % 2 + 1
        _take_over(
            figure, plot_slice(study, [hyperparameter], target_name=sweep.record.info.metric), row, column
        )
        if column == 2:
            figure.update_yaxes(title_text=None, row=row, col=column)
    for trace in figure.data:
        trace.marker = {"color": style.BLUE, "size": 7, "opacity": 0.55, "line": {"width": 0.5}}
    cut = style.cut(figure, found.scores.values())
    left_out = len(found.tried.ranges) - len(hyperparameters)
    weight = " of less weight" if found.importances and len(trainables(sweep.record)) == 1 else ""
    more = f"; {count(left_out, 'hyperparameter')}{weight} left out" if left_out else ""
    says = f"A point is a trial: {found.words}{_shown(found, MOST_POINTS, 'points')}{more}.{cut}"
    width = 2 * (LETTER * max(map(len, hyperparameters)) + 30)  # their names stand side by side
    figure = style.dress(figure, title, says, height=110 + HEIGHT * rows, min_width=width)
    return figure.update_layout(showlegend=False)


def contour(sweep: Sweep) -> go.Figure:
    """The score over each two of the most important hyperparameters."""
    found, title = fidelity(sweep.record), "Hyperparameters two by two"
    if found is None or len(found.tried.ranges) < 2 or len(found.scores) < 5:
        return style.blank(title, _why_not(found, trials=5, hyperparameters=2))
    study = found.study(MOST_CELLS)
    trials = study.get_trials(deepcopy=False)
    known = {name: {trial.params.get(name) for trial in trials} for name in _ranked(found)}
    hyperparameters = [name for name, values in known.items() if len(values - {None}) > 1][:MOST_PAIRED]
    pairs = [
        pair
        for pair in itertools.combinations(hyperparameters, 2)
        if sum(set(pair) <= set(trial.params) for trial in trials) >= 5
    ]
    if not pairs:
        return style.blank(title, "No two hyperparameters were tried together in 5 trials.")
    figure = make_subplots(rows=len(pairs), cols=1, vertical_spacing=0.3 / len(pairs))
    for row, pair in enumerate(pairs, start=1):
        part = plot_contour(study, list(pair), target_name=sweep.record.info.metric)
        part.data[0].showscale = row == 1
        _take_over(figure, part, row, 1)
    shared = [value for trace in figure.data if trace.type == "contour" for line in trace.z for value in line]
    finite = [value for value in shared if value is not None and math.isfinite(value)]
    if finite:
        figure.update_traces(selector={"type": "contour"}, zmin=min(finite), zmax=max(finite))
    first = (
        ""
        if found.importances
        else f"; the first {count(len(hyperparameters), 'hyperparameter')} of the space"
    )
    says = f"Between the points it is guessed: {found.words}{_shown(found, MOST_CELLS, 'points')}{first}."
    figure = style.dress(figure, title, says, height=110 + (HEIGHT + 20) * len(pairs))
    return figure.update_layout(showlegend=False)


def importance(sweep: Sweep) -> go.Figure:
    """How much each hyperparameter decided whether a trial was among the best: see `Fidelity.importances`.

    Not by `plot_param_importances`, which would evaluate them once more.
    """
    title, record = "Importance of the hyperparameters", sweep.record
    names = trainables(record)
    by_name = {name: fidelity(record, name) for name in names}
    whys = {name: NO_SCORE if at is None else at.why_no_importance for name, at in by_name.items()}
    found = {name: at for name, at in by_name.items() if at is not None and not whys[name]}
    if not found:
        return style.blank(title, _of_each(whys) if len(whys) > 1 else next(iter(whys.values()), NO_SCORE))
    shares = {
        hyperparameter: share for at in found.values() for hyperparameter, share in at.importances.items()
    }
    shares = dict(reversed(shares.items()))
    text = [at.percent(hyperparameter) for at in found.values() for hyperparameter in at.importances][::-1]
    bar = go.Bar(
        x=[100 * share for share in shares.values()],
        y=[_with_trials(hyperparameter, found) for hyperparameter in shares],
        orientation="h",
        text=text,
        textposition="outside",
        cliponaxis=False,
        marker={"color": style.BLUE},
    )
    figure = go.Figure(bar)
    most = 150 * max(shares.values())  # room for the words behind a bar, on a telephone too
    figure.update_xaxes(title_text="share, %", range=[0, most])
    figure.update_yaxes(type="category")
    says = _on_importance(found, whys)
    if list(shares) != list(bar.y):
        says += " In brackets: how many of the trials had a hyperparameter that not all have."
    figure = style.dress(figure, title, says, height=150 + 34 * len(shares))
    return figure.update_layout(showlegend=False)


def _on_importance(found: Mapping[str, Fidelity], whys: Mapping[str, str]) -> str:
    """What the bars show, of each trainable; `whys` says of which they show nothing."""
    says = "How much each hyperparameter decided, of what all do, whether a trial came among the best "
    if len(whys) == 1:
        return f"{says}{_best_share(*found.values())}."
    shown = [f"{name}: the best {_best_share(at)}." for name, at in found.items()]
    return " ".join([f"{says}of its trainable.", *shown, _of_each(whys)]).rstrip()


def _with_trials(hyperparameter: str, found: Mapping[str, Fidelity]) -> str:
    """A hyperparameter, and of one that not all trials of its trainable had, how many had it: of few, its
    share is next to nothing whatever it does."""
    at = next(at for at in found.values() if hyperparameter in at.importances)
    had = sum(hyperparameter in at.tried.params[number] for number in at.scores)
    return hyperparameter if had == len(at.scores) else f"{hyperparameter} ({count(had, 'trial')})"


def _of_each(whys: Mapping[str, str]) -> str:
    """Why a trainable shows nothing: each is compared at an epoch of its own."""
    return " ".join(f"{name}: {why[0].lower()}{why[1:]}" for name, why in whys.items() if why)


def _best_share(at: Fidelity) -> str:
    return f"{100 * at.top:.0f} % (PED-ANOVA), by {at.words}"


def _ranked(found: Fidelity) -> list[str]:
    """Hyperparameters that trials at this fidelity have, by importance where that can be told; else as in
    the space."""
    there = dict.fromkeys(name for number in found.scores for name in found.tried.params[number])
    hyperparameters = [name for name in there if name in found.tried.ranges]
    return sorted(hyperparameters, key=lambda name: -found.importances.get(name, 0.0))


def _add_ended(figure: go.Figure, sweep: Sweep, ended: Sequence[TrialRow]) -> None:
    objective = sweep.record.objective
    scored = [(place, t, t.best_score(objective)) for place, t in enumerate(ended, start=1)]
    points = [(place, trial, score) for place, trial, score in scored if score is not None]
    for status, mark in style.MARKS.items():
        of_status = [(place, trial, score) for place, trial, score in points if trial.status == status]
        if of_status:
            figure.add_trace(
                go.Scatter(
                    x=[place for place, _, _ in of_status],
                    y=[score for _, _, score in of_status],
                    text=[f"trial {trial.number}" for _, trial, _ in of_status],
                    mode="markers",
                    name=status,
                    marker={
                        "color": mark.color,
                        "symbol": mark.symbol,
                        "size": 8,
                        "line": {"width": 1.5, "color": mark.color},
                    },
                ),
                row=1,
                col=1,
            )
    well = [(place, s) for place, t, s in points if t.status in ("finished", "pruned")]
    if well:
        places, bests = [place for place, _ in well], _running([score for _, score in well], objective)
        figure.add_trace(_steps("best that ended well", places, bests, "solid"), row=1, col=1)


def _by_epochs(sweep: Sweep) -> tuple[list[int], list[float]]:
    """Epochs spent by all trials until the best score rose, and that score."""
    reports = sorted(
        (row.time, row.score if trial.status not in ("failed", "diverged") else math.nan)
        for trial in sweep.record.searched
        for row in trial.epochs.values()
    )
    objective = sweep.record.objective
    spent, scores = [], []
    best = math.nan
    for epochs, (_, score) in enumerate(reports, start=1):
        if objective.is_better(score, best):
            best = score
            spent.append(epochs)
            scores.append(best)
    return ([*spent, len(reports)], [*scores, best]) if spent else ([], [])


def _running(scores: Sequence[float], objective: Objective) -> list[float]:
    """The best score up to each one, in turn."""

    def better(best: float, score: float) -> float:
        return score if objective.is_better(score, best) else best

    return list(itertools.accumulate(scores, better))


def _steps(name: str, x: Sequence[float], y: Sequence[float], dash: str) -> go.Scatter:
    line = {"shape": "hv", "color": style.BLACK, "width": 2.5, "dash": dash}
    return go.Scatter(x=x, y=y, mode="lines", name=name, line=line)


def _take_over(figure: go.Figure, part: go.Figure, row: int, column: int) -> None:
    """Put a figure of Optuna's, which has one pair of axes, into a place of another."""
    for trace in part.data:
        figure.add_trace(trace, row=row, col=column)
    kept = ("title", "type", "range", "categoryorder", "categoryarray")
    for axis, update in (("xaxis", figure.update_xaxes), ("yaxis", figure.update_yaxes)):
        said: dict[str, Any] = part.layout[axis].to_plotly_json()
        update(row=row, col=column, **{name: said[name] for name in kept if name in said})
        if said.get("type") == "log":
            ends = [v for t in part.data for v in (t[axis[0]] if t[axis[0]] is not None else ()) if v]
            update(row=row, col=column, **style.log_ticks(ends))
        elif said.get("type") == "category" and said.get("categoryarray"):
            names = [str(name) for name in said["categoryarray"]]
            update(
                row=row,
                col=column,
                range=[-0.5, len(names) - 0.5],
                tickvals=names,
                ticktext=[name.strip("'") for name in names],
            )


def _shown(found: Fidelity, most: int, what: str) -> str:
    """That not all are drawn."""
    return f"; {most} {what} of {len(found.scores):,} are drawn" if len(found.scores) > most else ""


def _why_not(found: Fidelity | None, trials: int, hyperparameters: int) -> str:
    if found is None:
        return NO_SCORE
    if len(found.scores) < trials:
        return f"{count(len(found.scores), 'trial')} with a score; this needs {trials}."
    varied = (
        "No hyperparameter was varied" if not found.tried.ranges else "Only one hyperparameter was varied"
    )
    return f"{varied}; this needs {count(hyperparameters, 'hyperparameter')}."
