"""Look after the PCs of a cluster: `sweeps pcs check`, and others (`--help`)

Exit status: 0, all is right; 1, something is not; 2, a mistake in what was asked; 130, Ctrl-C.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from sweeps.common.cli.command import status_of
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import nearest

NAME = "sweeps pcs"
COMMANDS = {
    "check": "what would go wrong, PC by PC, over SSH: reach, versions, GPU, disk, memory, clock, ports",
    "status": "what runs where in the running cluster, and why a trial waits",
    "drain": "take a PC out in order: its trials go on elsewhere, and it is yours within a minute",
    "back": "let this PC join again, after a drain",
    "down": "end Ray on every PC of the cluster file, the workers at once",
}
"""Each is a module beside this one, with `run(arguments) -> exit status`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    return status_of(lambda: _run(tokens))


def _run(tokens: Sequence[str]) -> int:
    name = tokens[0] if tokens else ""
    if name in ("-h", "--help"):
        print(f"usage: {NAME} COMMAND [flags]\n")
        for command, does in COMMANDS.items():
            print(f"  {command:<8} {does}")
        print(f"\n{NAME} COMMAND --help  says more")
        return 0
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS)
        raise UserError(f"{name or 'no command'}: give one of {', '.join(COMMANDS)}.{hint}")
    status: int = importlib.import_module(f"sweeps.pcs.{name}").run(tokens[1:])
    return status


if __name__ == "__main__":
    sys.exit(main())
