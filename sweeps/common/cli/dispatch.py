"""A command of several subcommands: `sweeps COMMAND`, `sweeps pcs COMMAND`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from sweeps.common.cli.command import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.common.yaml_values import nearest


def dispatch(
    name: str,
    subcommands: Mapping[str, str],
    call: Callable[[str, list[str]], int],
    arguments: Sequence[str] | None,
) -> int:
    """Run the subcommand that the first word names; its exit status, 2 where there is none of this name.

    Args:
        name: of the command, "" for `sweeps` itself.
        subcommands: their names, each with a line for `--help`.
        call: runs a subcommand with the words behind its name; its exit status.
        arguments: what was typed; None: what the process was started with.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    return status_of(lambda: _run(command(*name.split()), subcommands, call, tokens))


def _run(
    program: str, subcommands: Mapping[str, str], call: Callable[[str, list[str]], int], tokens: list[str]
) -> int:
    chosen = tokens[0] if tokens else ""
    if chosen in ("-h", "--help"):
        lines = (f"  {subcommand:<10} {does}" for subcommand, does in subcommands.items())
        print(f"usage: {program} COMMAND [flags]", "", *lines, "", sep="\n")
        print(f"The flags of a command: {program} COMMAND --help")
        return 0
    if chosen not in subcommands:
        fault = f"{chosen}: no such command.{nearest(chosen, subcommands)}" if chosen else "give a command."
        raise UserError(f"{fault} Choices: {', '.join(subcommands)}")
    return call(chosen, tokens[1:])
