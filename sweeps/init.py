"""Start a project: `sweeps init FOLDER` writes a model, its data, a test, a pyproject and a README.

Exit status: 0; 2, the folder is a file, is not empty, or can't be written to.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, shown_path

IGNORED = "__pycache__/\nresults/\n"
"""For Git: what this program and Python write beside the project."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: init(parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> Path:
    """The folder to write into."""
    parser = cli_parser.Parser(
        prog="sweeps init",
        usage="%(prog)s FOLDER",
        description="Write a small project that runs: a model with its search space, its data and its test.",
        examples=["my-project"],
    )
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="A new or empty folder.")
    values = parser.values_of(arguments, "; give one folder")
    if values.folder is None:
        raise UserError(f"give a folder: {command('init', 'FOLDER')}")
    return Path(values.folder).expanduser()


def init(folder: Path) -> int:
    """Write the project, and say what to type next; the exit status."""
    files = write(folder)
    print(f"Created    {shown_path(folder.resolve())}: {', '.join(files)}")
    typed = command("run", "-n", "12", folder=folder)
    print(f"Next       {typed}")
    json_output.answer(folder=str(folder.resolve()), files=files, next=typed)
    return 0


def write(folder: Path) -> list[str]:
    """Write the project; the names of its files.

    Raises:
        UserError: the folder is not empty, or can't be written to.
    """
    try:
        # "new/.." is there, though "new" is not. `resolve` fails at a link to itself before Python 3.13.
        folder = Path(os.path.realpath(folder))
        if folder.is_file():
            raise UserError(f"{shown_path(folder)} is a file: give a new folder, or an empty one")
        if folder.is_dir() and any(path.name != ".git" for path in folder.iterdir()):
            raise UserError(f"{shown_path(folder)} is not empty: give a new folder, or an empty one")
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
        with resources.as_file(resources.files("sweeps") / "template") as template:
            files = {file.name: file.read_text() for file in template.iterdir() if file.is_file()}
            files[".gitignore"] = IGNORED
            for file, text in files.items():
                (folder / file).write_text(text.replace("PROJECT", name))
    except OSError as error:
        raise UserError(f"{shown_path(folder)} can't be written to: {error.strerror or error}") from None
    return sorted(files)


if __name__ == "__main__":
    sys.exit(main())
