"""The sections of the report, and the page that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.common import atomic_io

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from sweeps.analysis.sweep import Sweep


FILE = "report.html"


TEMPLATE = Path(__file__).with_name("report.html")


NOT_DRAWN = "This figure could not be drawn"


MOST_TRIALS = 20
"""In the table of the best."""


@dataclass(frozen=True)
class Drawn:
    """A figure as the page holds it."""

    name: str
    title: str
    says: str
    why: str
    """There is none; "" where there is."""
    height: int = 0
    min_width: int = 0
    content: str = ""
    """JSON that may stand inside a `<script>`."""


@dataclass(frozen=True)
class Table:
    """Rows of text."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page: sentences, then lines, a command, tables, figures."""

    anchor: str
    title: str
    sentences: Sequence[str] = ()
    lines: Sequence[str] = ()
    command: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[Drawn] = field(default=())
    is_answer: bool = False
    """Its first sentence is what most readers came for."""

    @property
    def is_drawn(self) -> bool:
        """Whether it has a figure to see."""
        return any(not figure.why for figure in self.figures)


def write(sweep: Sweep, output: Path | None = None) -> Path:
    """Write the page; its path.

    Raises:
        OSError: it can't be written.
    """
    path = output or sweep.folder / FILE
    atomic_io.write(path, page(sweep))
    return path


def page(sweep: Sweep) -> str:
    """The whole page."""
    import jinja2
    import plotly.offline

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=sweep.record.name,
        made=time.strftime("%Y-%m-%d at %H:%M"),
        sections=sections(sweep),
        plotly=plotly.offline.get_plotlyjs(),
    )


def sections(sweep: Sweep) -> list[Section]:
    """The page's parts, in order."""
    from sweeps.analysis import advice
    from sweeps.analysis.report import text

    advised = advice.advise(sweep)
    return [
        _found(sweep),
        _asked(sweep),
        Section(anchor="next", title="What to try next", lines=list(advised.lines), command=advised.command),
        Section(anchor="trials", title="The best trials", tables=[_ranking(sweep)]),
        Section(
            anchor="curves",
            title="Learning and pruning",
            sentences=text.pruning(sweep),
            figures=_figures(sweep, "learning_curves", "rung_survival", "history"),
        ),
        Section(
            anchor="hyperparameters",
            title="What the hyperparameters did",
            sentences=text.compared(sweep, advised),
            figures=_figures(sweep, "importance", "slices", "contour", "parallel_coordinates"),
        ),
        Section(
            anchor="cost",
            title="What it cost",
            sentences=text.cost(sweep),
            figures=_figures(sweep, "time_spent", "utilization", "timeline"),
        ),
        _trouble(sweep),
        Section(anchor="lineage", title="Where it came from", figures=_figures(sweep, "lineage")),
    ]


def _found(sweep: Sweep) -> Section:
    from sweeps.analysis.report import confidence, text

    return Section(
        anchor="found",
        title="What was found",
        sentences=[*text.found(sweep), *confidence.sureness(sweep)],
        command=confidence.to_confirm(sweep),
        tables=_winner(sweep),
        figures=_figures(sweep, "seeds") if sweep.record.reruns.numbers else [],
        is_answer=True,
    )


def _asked(sweep: Sweep) -> Section:
    from sweeps.analysis.report import text

    space = text.space(sweep)
    return Section(
        anchor="asked",
        title="What was asked",
        sentences=text.asked(sweep),
        tables=[Table("The space", ["hyperparameter", "values"], space)] if space else [],
    )


def _trouble(sweep: Sweep) -> Section:
    from sweeps.analysis.report import text

    troubles = text.troubles(sweep)
    first = "Failed and diverged trials, by cause:" if troubles else "No trial failed or diverged."
    return Section(
        anchor="trouble",
        title="Trouble",
        sentences=[first],
        lines=troubles,
        figures=_figures(sweep, "failures") if troubles else [],
    )


def _figures(sweep: Sweep, *names: str) -> list[Drawn]:
    from sweeps.analysis import figures as analysis_figures

    return [_drawn(name, analysis_figures.FIGURES[name], sweep) for name in names]


def _drawn(name: str, figure_of: Callable[[Sweep], go.Figure], sweep: Sweep) -> Drawn:
    """A figure for the page, its title and words as text of the page, which breaks lines."""
    try:
        figure = figure_of(sweep)
    except Exception as error:  # a fault of ours costs one figure, and not the page
        return Drawn(
            name, name.replace("_", " ").capitalize(), "", f"{NOT_DRAWN} ({type(error).__name__}: {error})."
        )
    why = (figure.layout.meta or {}).get("why", "")
    title, says = figure.layout.title.text, figure.layout.title.subtitle.text or ""
    figure.update_layout(title=None, margin_t=figure.layout.margin.t - 40)
    content = "" if why else figure.to_json().replace("<", "\\u003c")
    width = int((figure.layout.meta or {}).get("min_width", 0))
    return Drawn(name, title, says, why, int(figure.layout.height or 0), width, content)


def _winner(sweep: Sweep) -> list[Table]:
    from sweeps.common.formatting import short

    best = sweep.record.best()
    if best is None:
        return []
    rows = [[name, short(value)] for name, value in {**best.params, **best.fixed}.items()]
    return [Table(f"Params of trial {best.number}", ["hyperparameter", "value"], rows)]


def _ranking(sweep: Sweep) -> Table:
    from sweeps.analysis.report import text

    columns, rows = text.ranking(sweep, MOST_TRIALS)
    there = len(sweep.record.searched)
    some = f"The first {MOST_TRIALS} of {there:,}" if there > MOST_TRIALS else "All trials"
    return Table(f"{some}, each by its best epoch", columns, rows)
