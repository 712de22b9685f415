"""The same again: trials rerun with other seeds, and the sweeps that this one came from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go

from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count
from sweeps.record import status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.reruns import Confirmed
from sweeps.record.sweep_info import ParentInfo

MOST_GENERATIONS = 8


def seeds(sweep: Sweep) -> go.Figure:
    """How much the score depends on the seed: trials that were rerun, a point per seed."""
    title, record = "Spread over seeds", sweep.record
    found = record.confirmed() or record.reruns.so_far()
    shown = [one for one in found if one.scores]
    if not shown:
        why = "No trial was rerun with another seed."
        return style.blank(title, "No rerun has ended well." if record.reruns.numbers else why)
    figure = go.Figure(_scores(record, shown)).update_traces(mode="markers")
    figure.update_xaxes(type="category")
    figure.update_yaxes(title_text=record.info.metric)
    says = "Each run by its best epoch. The search's own score, chosen for being high, is not in the mean."
    if failures := sum(one.failures for one in found):
        says += f" {count(failures, 'rerun')} failed or diverged."
    return style.dress(figure, title, says)


def _scores(record: Record, shown: Sequence[Confirmed]) -> list[go.Scatter]:
    """Of each trial: its reruns, their mean, and what it had in the search."""
    names = [f"trial {one.number}" for one in shown]
    reruns = [
        (name, rerun)
        for name, one in zip(names, shown, strict=True)
        for rerun in record.reruns.of(one.number)
        if rerun.status == "finished"
    ]
    ring = {"color": style.SKY, "symbol": "circle-open", "size": 10, "line": {"width": 2}}
    points = go.Scatter(
        x=[name for name, _ in reruns],
        y=[rerun.best_score(record.objective) for _, rerun in reruns],
        text=[f"trial {rerun.number}" for _, rerun in reruns],
        name="a rerun",
        marker=ring,
    )
    means = go.Scatter(
        x=names,
        y=[one.mean for one in shown],
        error_y={"array": [one.std or 0.0 for one in shown]},
        name="mean and standard deviation",
        marker={"color": style.BLACK, "symbol": "diamond", "size": 10},
    )
    search = go.Scatter(
        x=names,
        y=[record.trials[one.number].best_score(record.objective) for one in shown],
        name="in the search",
        marker={"color": style.ORANGE, "symbol": "star", "size": 11},
    )
    return [points, means, search]


@dataclass(frozen=True)
class Ancestor:
    """A sweep that this one came from, or this one itself."""

    name: str
    generation: int
    """0 is this sweep, 1 those that it came from."""
    child: str
    """Which sweep came from it; "" for this one."""
    best: str
    """Its best score with the name of its metric; "" where its folder is gone."""


def ancestors(sweep: Sweep) -> list[Ancestor]:
    """This sweep, those that it came from, those that they came from, as far as their folders are there."""
    found = [Ancestor(sweep.record.name, 0, "", status.best(sweep.record))]
    seen = {sweep.folder.resolve()}
    following = [(parent, sweep.record, 1) for parent in sweep.record.info.parents]
    while following:
        parent, child, generation = following.pop(0)
        folder = _folder(parent, child.folder)
        record = None if folder is None else _read(folder)
        found.append(
            Ancestor(parent.name, generation, child.name, "" if record is None else status.best(record))
        )
        if record is None or folder is None or generation == MOST_GENERATIONS or folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        following += [(one, record, generation + 1) for one in record.info.parents]
    return found


def lineage(sweep: Sweep) -> go.Figure:
    """Which sweeps this one came from, with the best of each."""
    title, found = "Lineage", ancestors(sweep)
    if len(found) == 1:
        return style.blank(title, "This sweep was started from no other.")
    columns: dict[int, list[Ancestor]] = defaultdict(list)
    for one in found:
        columns[one.generation].append(one)
    places = {
        one.name: (-generation, place - (len(column) - 1) / 2)
        for generation, column in columns.items()
        for place, one in enumerate(column)
    }
    figure = go.Figure([*_arrows(found, places), _names(found, places)])
    oldest = max(columns)
    most = max(map(len, columns.values()))
    figure.update_xaxes(visible=False, range=[-oldest - 0.5, 0.5])
    figure.update_yaxes(visible=False, range=[-most / 2 - 0.2, most / 2 + 0.5])
    says = "An arrow leads from a sweep to the one that was started with its record; the star is this one."
    figure = style.dress(figure, title, says, height=130 + 110 * most, min_width=220 * (oldest + 1))
    return figure.update_layout(showlegend=False)


_Places = Mapping[str, tuple[float, float]]


def _arrows(found: Sequence[Ancestor], places: _Places) -> Iterator[go.Scatter]:
    for one in (ancestor for ancestor in found if ancestor.child in places):
        (x0, y0), (x1, y1) = places[one.name], places[one.child]
        yield go.Scatter(
            x=[x0, x1],
            y=[y0, y1],
            mode="lines+markers",
            line={"color": style.GREY, "width": 2},
            marker={"symbol": "arrow", "angleref": "previous", "size": [0, 14], "standoff": 10},
            hoverinfo="skip",
        )


def _names(found: Sequence[Ancestor], places: _Places) -> go.Scatter:
    return go.Scatter(
        x=[places[one.name][0] for one in found],
        y=[places[one.name][1] for one in found],
        text=[
            f"<b>{_escaped(one.name)}</b><br>{_escaped(one.best or 'its folder is gone')}" for one in found
        ],
        mode="markers+text",
        textposition="top center",
        marker={
            "size": 16,
            "color": style.BLUE,
            "symbol": ["star" if one.generation == 0 else "circle" for one in found],
        },
        hoverinfo="skip",
    )


def _folder(parent: ParentInfo, child: Path) -> Path | None:
    """Where a parent is: as it was named then, or, where all were moved, beside its child."""
    named = [Path(parent.folder)] if parent.folder else []
    return next((folder for folder in [*named, child.parent / parent.name] if folder.is_dir()), None)


def _read(folder: Path) -> Record | None:
    try:
        return Record.read(folder)
    except (OSError, RecordUnreadable):
        return None


def _escaped(text: str) -> str:
    """Plotly's texts know some tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
