"""The report of a sweep: `sweeps report results/NAME` writes one HTML file, `report.html`, into it.

The file needs no network and no other file. The sweep may be running or interrupted. Exit status: 0; 2, there
is no sweep to read, or no place to write to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.analysis.report.page import FILE, write
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.command import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, place, size

if TYPE_CHECKING:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _report(arguments))


def _report(arguments: Sequence[str] | None) -> int:
    folder, output = parse(arguments)
    from sweeps.analysis import sweep as analysis_sweep
    from sweeps.record.journal import RecordUnreadable

    try:
        sweep = analysis_sweep.load(folder)
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
        prog="sweeps report",
        usage="%(prog)s results/NAME [flags]",
        description="Write a page about a sweep, running or ended: one HTML file that needs no network.",
    )
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="Folder of the sweep, as results/NAME.")
    said = f"File to write (default: {FILE} in that folder)."
    cli_parser.add(parser, "output", str | None, said, None, metavar="FILE")
    values = parser.values_of(tokens, "; a report is of one sweep")
    if values.folder is None:
        raise UserError(f"give the folder of a sweep first: {command('report')} results/NAME")
    output = None if values.output is None else Path(values.output).expanduser()
    return Path(values.folder).expanduser(), output


if __name__ == "__main__":
    sys.exit(main())
