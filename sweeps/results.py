"""Compare sweeps: `sweeps results`; write the tables of one as CSV: `sweeps results NAME --csv FILE`

In Python:

    from sweeps import results

    sweep = results.load("results/NAME")
    sweep.trials.to_pandas()
    model = sweep.best().model()
    results.compare([sweep, "results/OTHER"]).to_pandas()

Exit status of the command: 0, at least one sweep was read; 2, none; 130, Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.config.sweep_folder import RESULTS, single_run, sweep_named, sweeps_in

if TYPE_CHECKING:  # `--help` answers at once
    import pyarrow as pa

    from sweeps.analysis.sweep import Sweep


def load(folder: str | Path) -> Sweep:
    """See `sweeps.analysis.sweep.load`."""
    from sweeps.analysis import sweep

    return sweep.load(folder)


def compare(sweeps: Iterable[Sweep | str | Path]) -> pa.Table:
    """See `sweeps.analysis.sweep.compare`."""
    from sweeps.analysis import sweep

    return sweep.compare(sweeps)


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _show(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[list[Path], str | None]:
    """The folders to look into, and the file for the tables of one."""
    parser = cli_parser.Parser(
        prog="sweeps results",
        usage="%(prog)s [NAME ...] [--csv FILE]",
        description="Compare sweeps, newest last: name, date, trainable, status, trials, best score, hours "
        "(of the sweep, by the clock), parent (the sweeps that it refines).",
        examples=["", "first second", "--json", "first --csv first.csv"],
    )
    help_ = f"A sweep by its name in {RESULTS}/, or the folder of one or of several (default: {RESULTS}/*)."
    parser.add_argument("folders", nargs="*", metavar="NAME", help=help_)
    words = (
        "Write a row for each trial of one sweep into FILE, and a row for each epoch into a file beside it, "
    )
    words += "with -epochs in its name. `-` prints the trials."
    parser.add_argument("--csv", metavar="FILE", help=words)
    asked = parser.values_of(arguments)
    if asked.csv == "-" and json_output.is_on():
        raise UserError("--csv - can't be combined with --json: both are the standard output")
    given = [sweep_named(folder) for folder in asked.folders] or sorted(Path(RESULTS).glob("[!.]*/"))
    found = [each for folder in given for each in sweeps_in(folder) or [folder]]
    # Those that are no sweep by intention: `results/*` names them, too.
    folders = [folder for folder in found if not single_run(folder)] or (found if asked.folders else [])
    if not folders:
        raise UserError(f"no sweep in {RESULTS}/ here: give folders, as in {command('results')} results/*")
    if asked.csv is not None and len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        example = command("results", "NAME", "--csv", "FILE")
        raise UserError(f"--csv: it takes one sweep, as in {example}. Sweeps: {names}")
    return folders, asked.csv


def _show(folders: Sequence[Path], table_file: str | None) -> int:
    from sweeps.analysis import comparison, tables

    if table_file is not None:
        for line in tables.write_csv(folders[0], table_file):
            print(line)
        return 0
    return comparison.show(folders)


if __name__ == "__main__":
    sys.exit(main())
