"""Show the sweeps that share a PC or a cluster, and those that wait: `sweeps queue`

Exit status: 0, also where no sweep runs; 2, a mistake in the command, or no cluster answers; 130, Ctrl-C.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Sequence

from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.formatting import count, rough
from sweeps.ray_cluster.places.shared_sweeps import SharedSweep, in_order, noted, this_user
from sweeps.ray_start import ray_environment
from sweeps.ray_start.ray_folder import ray_folders


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _show(parse(arguments)))


def parse(arguments: Sequence[str] | None = None) -> str | None:
    """The address of a cluster, or None for this PC."""
    parser = cli_parser.Parser(
        prog="sweeps queue",
        usage="%(prog)s [--address HOST:6379]",
        description="Show the sweeps that run on this PC or on a cluster, and those that wait there (sweeps "
        "run --queue): on which PCs, since when, and about how long they still take.",
        examples=["", "--address auto", "--json"],
    )
    help_ = "Ray cluster, as HOST:6379 or auto (default: the sweeps of this PC)."
    cli_parser.add(parser, "address", str | None, help_, None, metavar="HOST:6379")
    address: str | None = parser.values_of(arguments).address
    return address


def _show(address: str | None) -> int:
    where = "on this PC" if address is None else f"on the cluster at {address}"
    found = _of_this_pc() if address is None else _of_cluster(address)
    json_output.answer(sweeps=found)
    if not found:
        print(f"No sweep runs {where}.")
    else:
        from sweeps.common.cli import terminal

        table = terminal.plain_table("sweep", "does", "trials", "since", "left", "share", "priority", "for")
        for each in found:
            table.add_row(*_row(each))
        terminal.console().print(table)
    return 0


def _of_this_pc() -> list[SharedSweep]:
    """By what they have noted, without Ray, whose import and connection take seconds."""
    found = []
    for folder in ray_folders():
        if folder.state() is not None:
            answers = noted(folder.users(), time.monotonic())
            pcs = {node: platform.node() for answer in answers for node in answer.claim.held}
            found += in_order(answers, pcs, time.time())
    return found


def _of_cluster(address: str) -> list[SharedSweep]:
    """The sweeps of a Ray, which is joined for a moment."""

    ray_environment.prepare_to_look()
    ray_environment.settle_token(address)
    from sweeps.ray_cluster.nodes import joined
    from sweeps.ray_cluster.places import place_divider

    with joined(address):
        return place_divider.listed()


def _row(sweep: SharedSweep) -> list[str]:
    whose = "" if sweep.user == this_user() else f" of {sweep.user}"
    does = "runs" if sweep.waits_since is None else "waits"
    does += "" if sweep.place is None else f", {_ordinal(sweep.place)} in the queue"
    trials = ", ".join(f"{number:g} on {pc}" for pc, number in sweep.trials.items()) or "none"
    if sweep.gpus:
        trials += f" ({count(sweep.gpus, 'GPU')})"
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(sweep.waits_since or sweep.since))
    left = "" if sweep.left_s is None else f"about {rough(sweep.left_s)}"
    what = ", ".join(filter(None, (*sweep.waits_for, sweep.waits_on)))
    return [f"{sweep.name}{whose}", does, trials, since, left, f"{sweep.share:g}", f"{sweep.priority}", what]


def _ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


if __name__ == "__main__":
    sys.exit(main())
