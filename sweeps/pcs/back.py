"""`sweeps pcs back`: on a PC that was drained, let it join the cluster again."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.common.cli import parser as cli_parser
from sweeps.pcs import rejoin


def run(arguments: Sequence[str]) -> int:
    """The command; its exit status.

    Raises:
        UserError: a flag is wrong.
        SystemExit: after `--help` (status 0).
    """
    command = "sweeps pcs back"
    parser = cli_parser.Parser(
        prog=command, usage="%(prog)s", description="Let this PC, which was drained, join the cluster again."
    )
    parser.values_of(arguments, "; it is for the PC on which it is typed")
    print(rejoin.come_back())
    return 0
