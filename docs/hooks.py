"""Parts of pages that each build makes: help texts, the rooms as a picture and a table, the README's model,
the lines of `--json`.

A page has a line `<!-- help: run -->`, `<!-- rooms: picture -->`, `<!-- rooms: table -->`,
`<!-- readme: python -->`, `<!-- json: events -->` or `<!-- json: answers -->` where it belongs. The site has
each page as Markdown, too, for programs that read: llms.txt names them.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"^<!-- (help|rooms|readme|json): ([\w ]+) -->$", flags=re.M)
CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
WITH_HYPHENS = re.compile(r"(?<!\S)(?=\S{3,40}(?!\S))\S*-\S+")
WIDTH, HEIGHT, GAP = 760, 34, 8
"""Width of the picture, height of a room and gap between rooms, in pixels."""


_made: dict[str, str] = {}
"""The Markdown of each page, by its file, with all parts."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Called by MkDocs for each page."""
    parts = {"help": help_of, "rooms": rooms, "readme": readme_block, "json": json_lines}
    made = MARK.sub(lambda mark: parts[mark[1]](mark[2]), markdown)
    if page is not None:
        _made[page.file.src_uri] = made
    return made


def on_post_build(config: Any, **_: Any) -> None:
    """Called by MkDocs at the end: a program that reads takes the Markdown."""
    for name, markdown in _made.items():
        (Path(config.site_dir) / name).write_text(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs for each page: a browser may break a line behind each hyphen, as in `--max-epochs`."""
    return CODE.sub(lambda code: WITH_HYPHENS.sub(r'<span class="whole">\g<0></span>', code[0]), html)


def help_of(command: str) -> str:
    """The help of a subcommand on a terminal of 100 columns."""
    name, *more = command.split()
    words = [sys.executable, "-m", f"sweeps.{name}", *more, "--help-all" if name == "run" else "--help"]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=True
    )
    return f"```text\n{done.stdout.strip()}\n```"


def readme_block(language: str) -> str:
    """The first block of code in a language that the README shows."""
    found = re.search(rf"^```{language}\n.*?^```$", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    assert found is not None, f"the README has no block of {language}"
    return found[0]


def json_lines(what: str) -> str:
    """The lines that commands print with --json: the events, or the answers in the last line."""
    schema = json.loads((ROOT / "docs" / "output.schema.json").read_text())
    end, parts = "end_of_", []
    for name, line in schema["$defs"].items():
        if name.startswith(end) != (what == "answers"):
            continue
        command = f"sweeps {name.removeprefix(end).replace('_', ' ')}"
        common = {"event", "time", "not_finite", *(("exit_status", "error") if what == "answers" else ())}
        rows = [
            f"| `{field}` | {_json_type(about)} | {about['description']} |"
            for field, about in line["properties"].items()
            if field not in common
        ]
        rows = ["| field | type | content |", "|---|---|---|", *rows] if rows else ["It has no more fields."]
        title = f"`{command if what == 'answers' else name}`"
        parts.append(f"### {title}\n\n{line['description']}\n\n{chr(10).join(rows)}")
    return "\n\n".join(parts)


def _json_type(about: Any) -> str:
    if "enum" in about:
        return ", ".join(f"`{each}`" for each in about["enum"])
    kinds = about["type"] if isinstance(about["type"], list) else [about["type"]]
    return " or ".join(kinds)


def rooms(what: str) -> str:
    """The rooms of `sweeps/` in pyproject.toml, the lowest last."""
    return rooms_picture() if what == "picture" else rooms_table()


def layers() -> list[list[str]]:
    """The rooms, layer by layer, from the commands down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (contract["layers"] for contract in contracts if contract["id"] == "rooms")
    return [[room.strip(" ()") for room in layer.replace(":", "|").split("|")] for layer in found]


def rooms_picture() -> str:
    """A drawing of the layers; each may import the layers below it."""
    boxes = []
    rows = layers()
    for row, names in enumerate(rows):
        width = (WIDTH - GAP * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            x, y = column * (width + GAP), row * (HEIGHT + GAP)
            boxes.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="6" '
                'fill="#3f51b5" fill-opacity="0.12" stroke="#3f51b5"/>'
                f'<text x="{x + width / 2:.1f}" y="{y + HEIGHT / 2 + 5}" text-anchor="middle" '
                f'font-size="13" fill="currentColor">{escape(name)}</text>'
            )
    height = len(rows) * (HEIGHT + GAP) - GAP
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
        f'aria-label="The rooms of sweeps, from the commands at the top to common">{"".join(boxes)}</svg>'
    )


def rooms_table() -> str:
    """The purpose of each room: the first line of its docstring."""
    rows = ["| room | what it is for |", "|---|---|"]
    for name in [name for names in layers() for name in names]:
        module = ROOT / "sweeps" / name
        file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
        first = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
        rows.append(f"| `{name}` | {first.replace('|', '&#124;')} |")
    return "\n".join(rows)
