"""Look after the PCs of a cluster: `sweeps pcs check`, and others (`--help`)

Exit status: 0, all is right; 1, something is not; 2, a mistake in what was asked; 130, Ctrl-C.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from sweeps.common.cli.dispatch import dispatch
from sweeps.pcs import flags
from sweeps.ray_cluster import ray_environment

COMMANDS = {
    "check": "find faults on each PC over SSH: reach, versions, GPU, disk, memory, clock, ports",
    "status": "show what runs on each PC of the running cluster, and why a trial waits",
    "drain": "take a PC out of the cluster within a minute; its trials move to other PCs",
    "back": "let this PC join the cluster again after a drain",
    "down": "stop Ray on every PC of the cluster file, the workers included",
}
"""Each has a function in `flags`, and a module beside this one with `run(...) -> exit status`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return dispatch("pcs", COMMANDS, _call, arguments)


def _call(name: str, words: list[str]) -> int:
    arguments = getattr(flags, name)(words)
    ray_environment.prepare_to_look()  # before Ray is imported
    status: int = importlib.import_module(f"sweeps.pcs.{name}").run(**arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
