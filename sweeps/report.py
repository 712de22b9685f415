"""The report of a sweep: `sweeps report NAME` writes one HTML file, `report.html`, into it.

The file needs no network and no other file. The sweep may be running or interrupted. Exit status: 0; 2, there
is no sweep to read, or no place to write to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.config.sweep_folder import REPORT_FILE, SWEEP_HELP, newest_sweep, sweep_named


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _report(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[Path, Path | None]:
    """The sweep's folder, and the file to write, if one was given."""
    parser = cli_parser.Parser(
        prog="sweeps report",
        usage="%(prog)s [NAME] [flags]",
        description="Write a page about a sweep, running or ended: one HTML file that needs no network.",
        examples=["", "first", "first --output first.html"],
    )
    newest = f"{SWEEP_HELP[:-1]} (default: the newest)."
    parser.add_argument("folder", nargs="?", metavar="NAME", help=newest)
    help_ = f"File to write (default: {REPORT_FILE} in that folder)."
    cli_parser.add(parser, "output", str | None, help_, None, metavar="FILE")
    values = parser.values_of(arguments, "; a report is of one sweep")
    folder = newest_sweep() if values.folder is None else sweep_named(values.folder)
    output = None if values.output is None else Path(values.output).expanduser()
    return folder, output


def _report(folder: Path, output: Path | None) -> int:
    from sweeps.common.cli import terminal  # rich and tqdm, which `--help` does without

    with terminal.step("Writing the report", stays=False):
        from sweeps.analysis.report import page

        where = page.write_of_folder(folder, output)
    terminal.say(f"Report     {where}")
    json_output.answer(report=str(output or folder / REPORT_FILE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
