"""Steer a running sweep, from another terminal: `sweeps control results/NAME stop 7`

Exit status: 0, the sweep has answered what will happen, or keeps the command until it can; 2, it is refused;
1, the cluster does not answer; 130, Ctrl-C, which withdraws a command that was not taken up yet.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, shown_path
from sweeps.config import control_commands
from sweeps.config.sweep_folder import SWEEP_HELP, no_sweep, resume_command, sweep_named
from sweeps.record import control_requests

KEPT = "It keeps the command, and will take it up; its screen says what it did."


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _control(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[str, tuple[str, ...], str | None]:
    """The folder of the sweep (on the head of the cluster, where an address is given), the words of the
    command, and the address.

    Raises:
        UserError: there is no such flag or command, or its words do not fit.
        SystemExit: after `--help` (status 0).
    """
    parser = cli_parser.Parser(
        prog="sweeps control",
        usage="%(prog)s NAME COMMAND [--address HOST:PORT]",
        description="Steer a running sweep. It answers at once what will happen.\n\ncommands:\n"
        + "\n".join(f"  {words:<21} {does}" for words, does in control_commands.COMMANDS.items()),
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", nargs="?", metavar="NAME", help=SWEEP_HELP)
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="One of the commands above.")
    reach = "Head of the cluster to which the sweep was submitted, as for --submit; the folder is there"
    reach += " (default: the sweep is on this PC)"
    cli_parser.add(parser, "address", str | None, reach, None, metavar="HOST:PORT")
    values = parser.values_of(arguments)
    if values.folder in control_commands.NAMES:
        raise UserError(f"{values.folder}: give the folder first, as in {_example(values.folder)}")
    if values.folder is None:
        raise UserError(f"give the folder of a sweep and a command, as in {_example('pause')}")
    control_commands.parse(values.words)
    return values.folder, tuple(values.words), values.address


def _example(name: str) -> str:
    return command("control", "results/NAME", name)


def _control(typed: str, words: Sequence[str], address: str | None) -> int:
    if address is not None:
        from sweeps.ray_cluster import ray_environment

        ray_environment.prepare_to_submit(address)
        from sweeps.ray_cluster import submit

        return submit.control(address, typed, words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stopped Ray job gets it: Ctrl-C elsewhere
    folder = sweep_named(typed)
    if (fault := no_sweep(folder)) is not None:
        raise UserError(fault)
    try:
        answer = _ask(folder, words)
    except control_requests.NotTaken:
        raise UserError(
            f"{shown_path(folder)}: the sweep takes no command now: its trials have all ended, or its screen "
            "says why it can't be steered"
        ) from None
    except KeyboardInterrupt as interrupt:
        print(f"\n{interrupt}", file=sys.stderr)
        return 130
    if answer is None:
        print(f"The sweep is starting or busy. {KEPT}")
        return 0
    if answer.is_refused:
        raise UserError(answer.text)
    print(answer.text)
    return 0


def _ask(folder: Path, words: Sequence[str]) -> control_requests.Answer | None:
    """What `control_requests.ask` returns; a UserError where no process runs the sweep."""
    while True:
        try:
            return control_requests.ask(folder.resolve(), words)
        except control_requests.NotRunning:
            if why := _why_not_running(folder):
                raise UserError(why) from None
        except FileNotFoundError:  # its start has failed meanwhile
            raise UserError(no_sweep(folder) or f"{shown_path(folder)}: its files are gone") from None


def _why_not_running(folder: Path) -> str:
    """Why no process runs a sweep; "" where one has begun to since."""
    from sweeps.record import status
    from sweeps.record.record import Record

    record = Record.read(folder)
    if status.is_running(record):
        return ""
    shown, how = shown_path(folder), status.status(record)
    if status.can_go_on(record):
        again = resume_command(folder, *status.flags_of_resume(record))
        return f"{shown}: no process runs this sweep; it is {how}. Resume it: {again}"
    more = resume_command(folder, "--num-trials", str(2 * len(record.searched)))
    return f"{shown}: the sweep is {how}. For more trials: {more}"


if __name__ == "__main__":
    sys.exit(main())
