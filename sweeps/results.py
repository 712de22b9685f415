"""Compare sweeps: `sweeps results results/*`

In Python:

    from sweeps import results

    sweep = results.load("results/NAME")
    sweep.trials.to_pandas()
    model = sweep.best().model()
    results.compare([sweep, "results/OTHER"]).to_pandas()

Exit status of the command: 0, at least one sweep was read; 2, none; 130, Ctrl-C.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.command import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count
from sweeps.config.sweep_folder import RESULTS, no_sweep

if TYPE_CHECKING:  # `--help` answers at once
    from sweeps.record.record import Record

COMMAND = "sweeps results"


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: show(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[list[Path], bool]:
    """The folders to look into, and whether to answer in JSON.

    Raises:
        UserError: there is no such flag, or no folder.
        SystemExit: after `--help` (status 0).
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    parser = cli_parser.Parser(
        prog=COMMAND,
        usage="%(prog)s [FOLDER ...] [--json]",
        description="Sweeps side by side, oldest first: name, date, trainable, status, trials, best, hours "
        "(of the sweep, by the clock), parent (the sweeps that it was refined from).",
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"Of sweeps (default: {RESULTS}/*).")
    parser.add_argument("--json", action="store_true", help="A list of JSON, with more columns.")
    asked = parser.values_of(tokens)
    folders = [Path(folder) for folder in asked.folders] or sorted(Path(RESULTS).glob("[!.]*"))
    if not folders:
        raise UserError(f"no sweep in {RESULTS}/ here: give folders, as in {command('results')} results/*")
    return folders, bool(asked.json)


def show(folders: Sequence[Path], as_json: bool = False) -> int:
    """Print all sweeps, oldest first; say in a line each what is none. The exit status."""
    import pyarrow.compute as pc

    from sweeps.analysis import comparison

    rows = comparison.table(_read(folders))
    if not rows.num_rows:
        raise UserError(f"no sweep in {count(len(folders), 'place')}")
    rows = rows.take(pc.sort_indices(rows["date"]))
    if as_json:
        print(json.dumps(rows.to_pylist(), default=str, indent=1))
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(comparison.printed(rows, width))
    return 0


def _read(folders: Sequence[Path]) -> Iterator[Record]:
    """The records there are, one in memory at a time."""
    from rich.console import Console
    from rich.progress import track

    from sweeps.record.journal import RecordUnreadable
    from sweeps.record.record import Record

    screen = Console(stderr=True)
    shown = track(folders, "Reading", console=screen, transient=True, disable=not screen.is_terminal)
    for folder in shown:
        try:
            yield Record.read(folder)
        except (OSError, RecordUnreadable) as error:
            screen.print(no_sweep(folder) or error, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
