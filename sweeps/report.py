"""The report of a sweep: `python -m sweeps.report results/NAME` writes one HTML file, `report.html`, into it.

The file needs no network and no other file. The sweep may be running or broken off. Exit status: 0; 2, there
is no sweep to read, or no place to write to.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.common import atomic_io
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.command import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import place, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from sweeps.results import Sweep

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


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _report(arguments))


def _report(arguments: Sequence[str] | None) -> int:
    folder, output = parse(arguments)
    from sweeps import results
    from sweeps.record.journal import RecordUnreadable

    try:
        sweep = results.load(folder)
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    try:
        written = write(sweep, output)
    except OSError as error:
        raise UserError(f"{output or folder / FILE}: {error.strerror or error}") from None
    print(f"Report     {place(written)} ({size(written.stat().st_size)})")
    return 0


def parse(arguments: Sequence[str] | None = None) -> tuple[Path, Path | None]:
    """The sweep's folder, and where the page goes when that was said.

    Raises:
        UserError: there is no such flag, or no folder was given.
        SystemExit: after `--help` (status 0).
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    parser = cli_parser.Parser(
        prog="python -m sweeps.report",
        usage="%(prog)s results/NAME [flags]",
        description="Write a page about a sweep, running or ended: one HTML file that needs no network.",
    )
    parser.add_argument("folder", type=str, help="Folder of the sweep, as results/NAME.")
    said = f"File to write (default: {FILE} in that folder)."
    cli_parser.add(parser, "output", str | None, said, None, metavar="FILE")
    if not {"-h", "--help"} & set(tokens):
        cli_parser.refuse_unknown(tokens, {"--output"}, "python -m sweeps.report")
        if not tokens or tokens[0].startswith("-"):
            raise UserError("give the folder of a sweep first: python -m sweeps.report results/NAME")
    values = parser.values_of(tokens, {"output": str}, "; a report is of one sweep")
    output = None if values.output is None else Path(values.output).expanduser()
    return Path(values.folder).expanduser(), output


def write(sweep: Sweep, output: Path | None = None) -> Path:
    """Write the page, beside and renamed; where it is.

    Raises:
        OSError: it can't be written.
    """
    path = output or sweep.folder / FILE
    try:
        atomic_io.write(path, page(sweep))
    except OSError:
        path.with_name(f".{path.name}.part").unlink(missing_ok=True)  # it took the disk's last space
        raise
    return path


def page(sweep: Sweep) -> str:
    """The whole page."""
    import jinja2
    import plotly.offline

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=sweep.about.get("sweep", sweep.folder.name),
        made=time.strftime("%Y-%m-%d at %H:%M"),
        sections=sections(sweep),
        plotly=plotly.offline.get_plotlyjs(),
    )


def sections(sweep: Sweep) -> list[Section]:
    """The page's parts, in order."""
    from sweeps import advice, findings

    advised = advice.advise(sweep)
    return [
        _found(sweep),
        _asked(sweep),
        Section(anchor="next", title="What to try next", lines=list(advised.lines), command=advised.command),
        Section(anchor="trials", title="The best trials", tables=[_ranking(sweep)]),
        Section(
            anchor="curves",
            title="Learning and pruning",
            sentences=findings.pruning(sweep),
            figures=_figures(sweep, "learning_curves", "rung_survival", "history"),
        ),
        Section(
            anchor="knobs",
            title="What the knobs did",
            sentences=findings.compared(sweep, advised),
            figures=_figures(sweep, "importance", "slices", "contour", "parallel_coordinates"),
        ),
        Section(
            anchor="cost",
            title="What it cost",
            sentences=findings.cost(sweep),
            figures=_figures(sweep, "time_spent", "utilization", "timeline"),
        ),
        _trouble(sweep),
        Section(anchor="lineage", title="Where it came from", figures=_figures(sweep, "lineage")),
    ]


def _found(sweep: Sweep) -> Section:
    from sweeps import findings, sureness

    return Section(
        anchor="found",
        title="What was found",
        sentences=[*findings.found(sweep), *sureness.sureness(sweep)],
        command=sureness.to_confirm(sweep),
        tables=_winner(sweep),
        figures=_figures(sweep, "seeds") if sweep.record.reruns.numbers else [],
        is_answer=True,
    )


def _asked(sweep: Sweep) -> Section:
    from sweeps import findings

    space = findings.space(sweep)
    return Section(
        anchor="asked",
        title="What was asked",
        sentences=findings.asked(sweep),
        tables=[Table("The space", ["knob", "values"], space)] if space else [],
    )


def _trouble(sweep: Sweep) -> Section:
    from sweeps import findings

    troubles = findings.troubles(sweep)
    first = "Failed and diverged trials, by cause:" if troubles else "No trial failed or diverged."
    return Section(
        anchor="trouble",
        title="Trouble",
        sentences=[first],
        lines=troubles,
        figures=_figures(sweep, "failures") if troubles else [],
    )


def _figures(sweep: Sweep, *names: str) -> list[Drawn]:
    from sweeps import analysis

    return [_drawn(name, analysis.FIGURES[name], sweep) for name in names]


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
    return [Table(f"Params of trial {best.number}", ["knob", "value"], rows)]


def _ranking(sweep: Sweep) -> Table:
    from sweeps import findings

    columns, rows = findings.ranking(sweep, MOST_TRIALS)
    there = len(sweep.record.searched)
    some = f"The first {MOST_TRIALS} of {there:,}" if there > MOST_TRIALS else "All trials"
    return Table(f"{some}, each by its best epoch", columns, rows)


if __name__ == "__main__":
    sys.exit(main())
