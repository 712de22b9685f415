"""Steer a running sweep, from another terminal: `sweeps control stop 7`, or `sweeps control NAME stop 7`

Exit status: 0, the sweep has answered what will happen, or keeps the command until it can; 2, it is refused;
1, the cluster does not answer; 130, Ctrl-C, which withdraws a command that was not taken up yet.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, shown_path
from sweeps.config import control_commands
from sweeps.config.sweep_folder import (
    RESULTS,
    SWEEP_HELP,
    newest_sweep,
    no_sweep,
    sweep_named,
    sweeps_in,
)
from sweeps.record import lock


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _control(*parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> tuple[str, tuple[str, ...], str | None]:
    """The name or the folder of the sweep (on the head of the cluster, where an address is given; "" for the
    one that runs here), the words of the command, and the address."""
    parser = cli_parser.Parser(
        prog="sweeps control",
        usage="%(prog)s [NAME] COMMAND [--address HOST:PORT]",
        description="Steer a running sweep. It answers at once what will happen.",
        examples=["stop 7", "first try lr=0.1 batch_size=64", "set num-trials=48"],
    )
    name = f"{SWEEP_HELP[:-1]} (default: the one that runs)."
    parser.add_argument("words", nargs="*", metavar="[NAME] COMMAND", help=f"{name} The commands are below.")
    parser.epilog = (
        f"commands:\n{cli_parser.listed(control_commands.COMMANDS)}\n\n{control_commands.OF_SWEEP}"
    )
    reach = "Head of the cluster to which the sweep was submitted, as for --submit; the folder is there"
    reach += " (default: the sweep is on this PC)"
    cli_parser.add(parser, "address", str | None, reach, None, metavar="HOST:PORT")
    values = parser.values_of(arguments)
    first, *rest = values.words or [""]
    # A sweep may have the name of a command.
    is_command = first in control_commands.NAMES and (
        first in control_commands.ANNOTATING or "".join(rest[:1]) not in control_commands.NAMES
    )
    has_name = bool(first) and not is_command
    words = rest if has_name else values.words
    control_commands.parse(words)
    if values.address is not None and not has_name:
        example = command("control", f"{RESULTS}/NAME", *words, "--address", values.address)
        raise UserError(f"--address: give the folder of the sweep on the head, as in {example}")
    return first if has_name else "", tuple(words), values.address


def _control(typed: str, words: Sequence[str], address: str | None) -> int:
    if address is not None:
        from sweeps.ray_start import ray_environment

        ray_environment.prepare_to_submit(address)
        from sweeps.ray_cluster import submit

        return submit.control(address, typed, words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stopped Ray job gets it: Ctrl-C elsewhere
    folder = sweep_named(typed) if typed else _running(words)
    if (fault := no_sweep(folder)) is not None:
        raise UserError(fault)
    from sweeps.record import steering  # with Optuna, which --help does without

    try:
        answer = steering.steer(folder, words)
    except KeyboardInterrupt as interrupt:
        print(f"\n{interrupt}", file=sys.stderr)
        json_output.answer(error=str(interrupt))
        return 130
    if answer.is_refused:
        raise UserError(answer.text)
    print(answer.text)
    json_output.answer(folder=str(folder), answer=answer.text)
    return 0


def _running(words: Sequence[str]) -> Path:
    """The sweep in results/ that runs, for the words of a command.

    Raises:
        UserError: there is none, or there are several.
    """
    running = [folder for folder in sweeps_in(Path(RESULTS)) if lock.is_held(folder)]
    if len(running) == 1:
        return running[0]
    if running:
        names = ", ".join(folder.name for folder in running)
        raise UserError(f"several sweeps run here: give the name of one first. Names: {names}")
    newest = newest_sweep()
    if words[0] in control_commands.ANNOTATING:
        return newest
    from sweeps.record import steering  # with Optuna, which --help does without

    raise steering.how_to_go_on(newest, words) or UserError(
        f"{shown_path(newest)} has just begun: type it again"
    )


if __name__ == "__main__":
    sys.exit(main())
