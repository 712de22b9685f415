"""Reruns of trials with other seeds, and the sweeps that this one was started from."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.record import status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.sweep_info import ParentInfo


def seeds(sweep: Sweep) -> go.Figure:
    """How much the score depends on the seed: trials that were rerun, a point per seed."""
    title, record = "Spread over seeds", sweep.record
    found = record.confirmed() or record.confirmed_so_far()
    shown = [trial for trial in found if trial.scores]
    if not shown:
        why = "No rerun has ended well." if record.rerun_trials else "No trial was rerun with another seed."
        return style.blank(title, why)
    names = {trial.number: f"trial {trial.number}" for trial in shown}
    reruns = [rerun for number in names for rerun in record.reruns_of(number) if rerun.status == "finished"]
    ring = {"color": style.SKY, "symbol": "circle-open", "size": 10, "line": {"width": 2}}
    points = go.Scatter(
        x=[names[rerun.confirms] for rerun in reruns if rerun.confirms is not None],
        y=[rerun.best_score(record.objective) for rerun in reruns],
        text=[f"trial {rerun.number}" for rerun in reruns],
        name="rerun",
        marker=ring,
    )
    means = go.Scatter(
        x=list(names.values()),
        y=[trial.mean for trial in shown],
        error_y={"array": [trial.std or 0.0 for trial in shown]},
        name="mean and standard deviation",
        marker={"color": style.BLACK, "symbol": "diamond", "size": 10},
    )
    search = go.Scatter(
        x=list(names.values()),
        y=[record.trials[number].best_score(record.objective) for number in names],
        name="in the search",
        marker={"color": style.ORANGE, "symbol": "star", "size": 11},
    )
    figure = go.Figure([points, means, search]).update_traces(mode="markers")
    figure.update_xaxes(type="category")
    figure.update_yaxes(title_text=record.info.metric)
    caption = "Each point is the best epoch of a run. The mean leaves out the score of the search, which was "
    caption += "selected for being high."
    if failures := sum(trial.failures for trial in found):
        caption += f" {count(failures, 'rerun')} failed or diverged."
    return style.finish(figure, title, caption)


@dataclass(frozen=True)
class Ancestor:
    """A sweep that this one was started from, or this one itself."""

    name: str
    generation: int
    """0 is this sweep, 1 its parents."""
    child: str
    """Which sweep was started from it; "" for this one."""
    best: str
    """Its best score with the name of its metric; "" where its folder is gone."""


def ancestors(sweep: Sweep) -> list[Ancestor]:
    """This sweep, its parents, their parents, as far as their folders are there."""
    found = [Ancestor(sweep.record.name, 0, "", status.best(sweep.record))]
    seen = {sweep.folder.resolve()}
    following = deque((parent, sweep.record, 1) for parent in sweep.record.info.parents)
    while following:
        parent, child, generation = following.popleft()
        record = _read(parent, child.folder)
        best = "" if record is None else status.best(record)
        found.append(Ancestor(parent.name, generation, child.name, best))
        if record is not None and record.folder.resolve() not in seen:
            seen.add(record.folder.resolve())
            following += [(one, record, generation + 1) for one in record.info.parents]
    return found


def lineage(sweep: Sweep) -> go.Figure:
    """Which sweeps this one was started from, with the best score of each."""
    title, found = "Parent sweeps", ancestors(sweep)
    if len(found) == 1:
        return style.blank(title, "This sweep was not started from another one.")
    columns: dict[int, list[Ancestor]] = defaultdict(list)
    for one in found:
        columns[one.generation].append(one)
    places = {
        one.name: (-generation, place - (len(column) - 1) / 2)
        for generation, column in columns.items()
        for place, one in enumerate(column)
    }
    figure = go.Figure()
    for one in found:
        figure.add_scatter(
            x=[places[one.name][0]],
            y=[places[one.name][1]],
            text=f"<b>{escape(one.name)}</b><br>{escape(one.best or 'its folder is missing')}",
            mode="markers+text",
            textposition="top center",
            marker={"size": 16, "color": style.BLUE, "symbol": "circle" if one.generation else "star"},
            hoverinfo="skip",
        )
        if one.child in places:
            (x, y), (at_x, at_y) = places[one.child], places[one.name]
            tail = {"axref": "x", "ayref": "y", "ax": at_x, "ay": at_y, "standoff": 12, "startstandoff": 12}
            figure.add_annotation(x=x, y=y, text="", arrowhead=2, arrowcolor=style.GREY, arrowwidth=2, **tail)
    oldest, most = max(columns), max(map(len, columns.values()))
    figure.update_xaxes(visible=False, range=[-oldest - 0.5, 0.5])
    figure.update_yaxes(visible=False, range=[-most / 2 - 0.2, most / 2 + 0.5])
    caption = "An arrow leads from a sweep to the one that refines it. The star is this sweep."
    return style.finish(
        figure, title, caption, height=130 + 110 * most, min_width=220 * (oldest + 1), legend=False
    )


def _read(parent: ParentInfo, child: Path) -> Record | None:
    """The record of a parent: where it was then, or, where all were moved, beside its child."""
    named = [Path(parent.folder)] if parent.folder else []
    folder = next((folder for folder in [*named, child.parent / parent.name] if folder.is_dir()), None)
    try:
        return None if folder is None else Record.read(folder)
    except (OSError, RecordUnreadable):
        return None
