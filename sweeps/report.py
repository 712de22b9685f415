"""The report of a sweep: `sweeps report results/NAME` writes one HTML file, `report.html`, into it.

The file needs no network and no other file. The sweep may be running or interrupted. Exit status: 0; 2, there
is no sweep to read, or no place to write to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.config.sweep_folder import REPORT_FILE


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _report(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[Path, Path | None]:
    """The sweep's folder, and the file to write, if one was given.

    Raises:
        UserError: there is no such flag, or no folder was given.
        SystemExit: after `--help` (status 0).
    """
    parser = cli_parser.Parser(
        prog="sweeps report",
        usage="%(prog)s results/NAME [flags]",
        description="Write a page about a sweep, running or ended: one HTML file that needs no network.",
    )
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="Folder of the sweep, as results/NAME.")
    help_ = f"File to write (default: {REPORT_FILE} in that folder)."
    cli_parser.add(parser, "output", str | None, help_, None, metavar="FILE")
    values = parser.values_of(arguments, "; a report is of one sweep")
    if values.folder is None:
        raise UserError(f"give the folder of a sweep first: {command('report')} results/NAME")
    output = None if values.output is None else Path(values.output).expanduser()
    return Path(values.folder).expanduser(), output


def _report(folder: Path, output: Path | None) -> int:
    from sweeps.analysis.report import page

    print(f"Report     {page.write_of_folder(folder, output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
