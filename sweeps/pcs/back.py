"""`python -m sweeps.pcs back`: on a PC that was drained, let it join the cluster again."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.pcs import away
from training import flags


def run(arguments: Sequence[str]) -> int:
    """The command; its exit status.

    Raises:
        UserError: a flag is wrong.
        SystemExit: after `--help` (status 0).
    """
    command = "python -m sweeps.pcs back"
    flags.refuse_unknown(list(arguments), set(), command)
    parser = flags.Parser(
        prog=command, usage="%(prog)s", description="Let this PC, which was drained, join the cluster again."
    )
    parser.values_of(list(arguments), {}, "; it is for the PC on which it is typed")
    print(away.come_back())
    return 0
