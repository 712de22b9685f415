"""The command `sweeps`, with its subcommands; `python -m sweeps run` is the same as `sweeps run`.

Exit status: that of the subcommand; 2, there is no such subcommand.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from sweeps.common.cli.dispatch import dispatch

COMMANDS = {
    "init": "start a project from a small example that runs",
    "run": "run a sweep: train many trials of a model, and prune the poor ones",
    "fit": "train one trial by itself, without a sweep",
    "prepare": "prepare raw data once, for all trials that train on it",
    "ladder": "measure how fast a model trains, one improvement after another",
    "results": "compare sweeps in a table",
    "report": "write an HTML page about a sweep",
    "control": "steer a running sweep: stop or add a trial, pause, finish, change its limits",
    "dashboard": "show a sweep in the browser, during or after its run",
    "pcs": "check the PCs of a cluster, show their trials, take one out or back in",
}
"""Each is a module `sweeps.NAME` with `main(arguments) -> exit status`; those of `pcs` are a package."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return dispatch("", COMMANDS, _call, arguments)


def _call(name: str, arguments: list[str]) -> int:
    if name != "fit":  # whose words Lightning repeats to start the other workers
        # As for `python -m sweeps.run`: commands read their own arguments.
        sys.argv = [sys.argv[0], *arguments]
    module = importlib.import_module("sweeps.pcs.__main__" if name == "pcs" else f"sweeps.{name}")
    status: int = module.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
