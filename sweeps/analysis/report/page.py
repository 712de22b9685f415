"""The sections of the report, and the page that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.offline

from sweeps.analysis import advice, figures
from sweeps.analysis.advice import Step
from sweeps.analysis.compared_trials import is_bad
from sweeps.analysis.report import confidence, text
from sweeps.analysis.report.text import Table
from sweeps.analysis.sweep import Sweep, load
from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path, size
from sweeps.config.sweep_folder import REPORT_FILE
from sweeps.record import status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.trials import TrialRow

NOT_DRAWN = "This figure could not be drawn"
NO_HYPERPARAMETERS = ("_target_", "_partial_", "_convert_", "_recursive_")
"""Keys by which Hydra builds an object, which are left out where they are fixed."""
MOST_TRIALS = 20
"""In the table of the best."""


@dataclass(frozen=True)
class Drawn:
    """A figure as the page holds it."""

    name: str
    title: str
    caption: str
    why_blank: str
    """Why there is no figure; "" where there is one."""
    height: int = 0
    min_width: int = 0
    content: str = ""
    """JSON that is safe inside a `<script>`."""


@dataclass(frozen=True)
class Section:
    """A part of the page: sentences, steps, a list, a command, links, tables, figures, in this order."""

    title: str
    sentences: Sequence[str] = ()
    steps: Sequence[Step] = ()
    items: Sequence[str] = ()
    command: str = ""
    logs: Sequence[TrialRow] = ()
    """Trials whose logs are linked: the report is in the folder to which they are relative."""
    tables: Sequence[Table] = ()
    figures: Sequence[Drawn] = ()

    @property
    def is_drawn(self) -> bool:
        """Whether it has a figure that is not blank."""
        return any(not figure.why_blank for figure in self.figures)


def write(sweep: Sweep, output: Path | None = None) -> Path:
    """Write the page; its path.

    Raises:
        OSError: it can't be written.
    """
    path = output or sweep.folder / REPORT_FILE
    atomic_io.write(path, page(sweep))
    return path


def write_of_folder(folder: Path, output: Path | None) -> str:
    """Write the page about the sweep in a folder; where it is, and its size.

    Raises:
        UserError: there is no sweep to read, or no place to write to.
    """
    try:
        sweep = load(folder)
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    try:
        written = write(sweep, output)
    except OSError as error:
        raise UserError(f"{output or folder / REPORT_FILE}: {error.strerror or error}") from None
    return f"{shown_path(written)} ({size(written.stat().st_size)})"


def page(sweep: Sweep) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sweeps.analysis", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        name=sweep.record.name,
        made=time.strftime("%Y-%m-%d at %H:%M"),
        sections=sections(sweep),
        plotly=plotly.offline.get_plotlyjs(),
    )


def sections(sweep: Sweep) -> list[Section]:
    """The page's parts, in order."""
    best_trials = [trial for trial in text.ranked(sweep)[:MOST_TRIALS] if trial.log]
    several = sweep.record.objectives.are_several
    first = f"These figures are by {sweep.record.objective.metric}, the first objective, alone."
    return [
        _result(sweep),
        Section("Settings and search space", text.settings(sweep), tables=[text.space(sweep)]),
        _next_steps(sweep),
        Section("Best trials", logs=best_trials, tables=[text.ranking(sweep, MOST_TRIALS)]),
        Section(
            "Learning and pruning",
            [text.pruning(sweep)],
            tables=[text.at_rungs(sweep)],
            figures=_figures(sweep, "learning_curves", "rung_survival", "history"),
        ),
        Section(
            "Hyperparameters",
            [first] if several else [],
            figures=_figures(sweep, "importance", "slices", "contour", "parallel_coordinates"),
        ),
        Section("Cost", [text.cost(sweep)], figures=_figures(sweep, "time_spent", "utilization", "timeline")),
        _failures(sweep),
        Section("Lineage", figures=_figures(sweep, "lineage")),
    ]


def _result(sweep: Sweep) -> Section:
    best, tables = sweep.record.best(), [text.front(sweep)]
    if best is not None:
        caption = f"Hyperparameters of trial {best.number}"
        last = {name: name.rpartition(".")[2] for name in best.fixed}
        settings = {name: value for name, value in best.fixed.items() if last[name] not in NO_HYPERPARAMETERS}
        tables.append(text.pairs(caption, "value", {**best.params, **settings}))
    return Section(
        "Result",
        [text.result(sweep), *text.troubles(sweep), *confidence.confidence(sweep)],
        command=confidence.to_confirm(sweep),
        tables=tables,
        figures=_figures(
            sweep,
            *(["front"] if sweep.record.objectives.are_several else []),
            *(["seeds"] if sweep.record.rerun_trials else []),
        ),
    )


def _next_steps(sweep: Sweep) -> Section:
    advised, how = advice.advise(sweep), status.status(sweep.record)
    if status.is_running(sweep.record):
        return Section("Next steps", [f"The sweep is {how}: what is next follows at its end."])
    columns, rows = ["hyperparameter", "range", "next range", "why"], [list(each) for each in advised.changes]
    caption = "The ranges that --refine takes, unless Params refuses an end"
    if sweep.record.objectives.are_several:
        caption = "The ranges that the trials suggest for another sweep"
    table = Table(caption, columns, rows)
    return Section("Next steps", advised.basis, steps=advised.steps, tables=[table])


def _failures(sweep: Sweep) -> Section:
    if not (failed := text.failures(sweep)):
        tables = [text.attempts(sweep)]
        return Section("Failures", ["No trial failed, diverged or is infeasible."], tables=tables)
    retry = status.retry_command(sweep.record)
    return Section(
        "Failures",
        ["Trials that failed, diverged or are infeasible, by cause:"],
        items=[*failed, *(["The command below trains those again that failed."] if retry else [])],
        command=retry,
        logs=[trial for trial in sweep.record.trials if trial.log and is_bad(trial)][:100],
        tables=[text.attempts(sweep)],
        figures=_figures(sweep, "failures"),
    )


def _figures(sweep: Sweep, *names: str) -> list[Drawn]:
    return [_drawn(name, figures.FIGURES[name], sweep) for name in names]


def _drawn(name: str, figure_of: Callable[[Sweep], go.Figure], sweep: Sweep) -> Drawn:
    """A figure for the page, its title and caption as text of the page, which breaks lines."""
    try:
        figure = figure_of(sweep)
    except Exception as error:  # a fault here costs one figure, not the page
        why = f"{NOT_DRAWN} ({type(error).__name__}: {error})."
        return Drawn(name, name.replace("_", " ").capitalize(), "", why)
    title, caption, why = (
        figure.layout.title.text,
        figure.layout.title.subtitle.text,
        figures.why_blank(figure),
    )
    figure.update_layout(title=None, margin_t=figure.layout.margin.t - 40)
    content = "" if why else figure.to_json().replace("<", "\\u003c")
    min_width = int(figure.layout.meta.get("min_width", 0))
    return Drawn(name, title, caption or "", why, int(figure.layout.height or 0), min_width, content)
