"""See a sweep in half a minute: `sweeps demo` writes the example of `sweeps init`, and sweeps it.

It needs no network: the digits come with scikit-learn. Exit status: that of the sweep.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps import init
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.formatting import command
from sweeps.run import main as run_main

SWEEP = ("--num-trials", "16", "--max-epochs", "27")


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: demo(parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> Path:
    """The folder of the example."""
    parser = cli_parser.Parser(
        prog="sweeps demo",
        usage="%(prog)s [FOLDER]",
        description="Sweep a small network that reads handwritten digits: about half a minute, no network.",
        examples=[""],
    )
    help_ = "A folder to write the example into (default: sweeps-demo); one that has it is swept again."
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help=help_)
    return Path(parser.values_of(arguments, "; give one folder").folder or "sweeps-demo").expanduser()


def demo(folder: Path) -> int:
    """Write the example where it is not there yet, sweep it, and say how to go on; the exit status.

    Raises:
        UserError: the folder holds something else, or can't be written to.
    """
    from sweeps.common.cli.terminal import say  # rich and tqdm, which `--help` does without

    try:
        is_there = (folder / "digits_data.py").exists()
    except OSError:  # this user may not look there, say: `write` tells why
        is_there = False
    if not is_there:
        init.write(folder)
    started_in = Path.cwd()
    os.chdir(folder)
    say(f"Folder     {Path.cwd()}\nCommand    {command('run', *SWEEP)}\n")
    status = run_main(SWEEP)
    if Path.cwd() != started_in:
        say(f"\nGo on      cd {shlex.quote(str(folder))}    # the commands above are for this folder")
    if status == 0:
        reports = Path("results").glob("*/report.html")
        report = max(reports, key=lambda path: path.stat().st_mtime, default=None)
        if report is not None:  # Ctrl-C, or a full disk, costs a sweep that has ended its report alone
            say(f"Look       xdg-open {shlex.quote(str(report.resolve()))}")
        say(f"Your own   {command('init', 'my-project')}")
    return status


if __name__ == "__main__":
    sys.exit(main())
