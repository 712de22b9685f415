"""The report as a page: the templates that it shares with the page in the browser, and its file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import plotly.graph_objects as go
import plotly.offline
from plotly.io.json import to_json_plotly

from sweeps.analysis import figures
from sweeps.analysis.report.sections import sections, summary
from sweeps.analysis.sweep import Sweep, load
from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import encodable, shown_path, size
from sweeps.config.sweep_folder import REPORT_FILE
from sweeps.record import status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record

NOT_DRAWN = "This figure could not be drawn"
TITLE = 55
"""Height of the title and the caption of a figure, which the page writes itself, in pixels."""
FOLDER = Path(__file__).parent
"""Of `style.css`, `figures.js`, `tables.js` and the templates."""


@dataclass(frozen=True)
class Drawn:
    """A figure, as `sections.html` places it and `figures.js` draws it: with its content inside, or with the
    address of that. One with an address may leave all else to the content that is fetched."""

    name: str
    title: str = ""
    caption: str = ""
    why_blank: str = ""
    """Why there is no figure; "" where there is one."""
    content: str = ""
    """JSON that is safe inside a `<script>`: data, layout, words, title, caption, why_blank."""
    address: str = ""


def figure(record: Record, name: str) -> Drawn:
    """A figure of `figures.FIGURES`."""
    return drawn(name, lambda: figures.FIGURES[name](Sweep(record)))


def drawn(name: str, make: Callable[[], go.Figure]) -> Drawn:
    """A figure, its title and caption as text of the page, which breaks lines."""
    try:
        made = make()
    except Exception as error:  # a fault here costs one figure, not the page
        title, why = name.replace("_", " ").capitalize(), f"{NOT_DRAWN} ({type(error).__name__}: {error})."
        return Drawn(name, title, why_blank=why, content=_content(title=title, caption="", why_blank=why))
    layout = made.layout
    told = {
        "title": layout.title.text,
        "caption": layout.title.subtitle.text or "",
        "why_blank": figures.why_blank(made),
    }
    made.update_layout(title=None, margin_t=layout.margin.t - TITLE, height=layout.height - TITLE)
    parts = {} if told["why_blank"] else made.to_plotly_json()
    content = _content(**parts, words=_words(parts.get("data", ())), **told)
    return Drawn(name, **told, content=content)


def _content(**parts: Any) -> str:
    return str(to_json_plotly(parts)).replace("<", "\\u003c")


def _words(traces: Any) -> list[Any]:
    """What the points of all traces say, each once; the traces keep the number of it."""
    numbers: dict[tuple[str, ...], int] = {}
    for trace in traces:
        if (said := trace.get("customdata")) is not None:
            trace["customdata"] = [numbers.setdefault(tuple(row), len(numbers)) for row in said]
    return list(numbers)


def environment(*folders: Path) -> jinja2.Environment:
    """Of the templates in these folders, and of the report's: `sections.html` has what both pages show."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(record: Record, folder: Path | None = None) -> str:
    """The whole report, which fetches nothing; in another folder than that of the sweep it leads there."""
    shown, place = sections(record), record.folder.resolve()
    if folder is not None and folder.resolve() != place:
        way = quote(os.fsencode(os.path.relpath(place, folder.resolve())))
        shown = [section.leading(lambda link: f"{way}/{link.address}") for section in shown]
    template = environment().get_template("report.html")
    return template.render(
        name=record.name,
        status=str(status.status(record)),
        made=time.strftime("%Y-%m-%d at %H:%M"),
        summary=summary(record),
        sections=shown,
        figures={section.name: [figure(record, name) for name in section.figures] for section in shown},
        style=_read("style.css"),
        scripts=(plotly.offline.get_plotlyjs(), *map(_read, ("figures.js", "tables.js"))),
    )


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def write(record: Record, output: Path | None = None) -> Path:
    """Write the page; its path.

    Raises:
        OSError: it can't be written.
    """
    path = output or record.folder / REPORT_FILE
    atomic_io.write(path, encodable(page(record, path.parent)))
    return path


def write_of_folder(folder: Path, output: Path | None) -> str:
    """Write the page about the sweep in a folder; where it is, and its size.

    Raises:
        UserError: there is no sweep to read, or no place to write to.
    """
    try:
        record = load(folder).record
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    try:
        written = write(record, output)
    except OSError as error:
        raise UserError(f"{output or folder / REPORT_FILE}: {error.strerror or error}") from None
    return f"{shown_path(written)} ({size(written.stat().st_size)})"
