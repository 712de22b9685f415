"""The command `sweeps`, with its subcommands; `python -m sweeps run` is the same as `sweeps run`.

Exit status: that of the subcommand; 2, there is no such subcommand.
"""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Sequence

from sweeps.common.cli.dispatch import dispatch
from sweeps.common.imports import DISTRIBUTION, OF_A_CHECKOUT, release_of

COMMANDS = {
    "demo": "see a sweep of a small example in half a minute",
    "init": "start a project from a small example that runs",
    "run": "run a sweep: train many trials of a model, and prune the poor ones",
    "fit": "train one trial by itself, without a sweep",
    "prepare": "prepare raw data once, for all trials that train on it",
    "ladder": "measure how fast a model trains, one improvement after another",
    "results": "compare sweeps in a table",
    "report": "write an HTML page about a sweep",
    "queue": "show the sweeps that run on this PC or a cluster, and those that wait",
    "control": "steer a running sweep: stop or add a trial, pause, finish, change its limits",
    "dashboard": "show all sweeps in the browser, during and after their runs",
    "up": "start Ray on this PC so that it stays, for sweeps that join it",
    "down": "end that Ray, or say by which sweeps it is used",
    "pcs": "check the PCs of a cluster, show their trials, take one out or back in",
}
"""Each is a module `sweeps.NAME` with `main(arguments) -> exit status`; those of `pcs` are a package."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if tokens == ["--version"]:
        print(version())
        return 0
    return dispatch("", COMMANDS, _call, tokens or ["--help"])


def version() -> str:
    """That of this program, of Python, and of what a sweep stands on."""
    import torch

    parts = {"sweeps": release_of(DISTRIBUTION), "Python": platform.python_version()}
    parts |= {"PyTorch": torch.__version__, "Lightning": release_of("lightning")}
    parts |= {"Ray": release_of("ray"), "CUDA": torch.version.cuda or "none"}
    return ", ".join(f"{name} {number or OF_A_CHECKOUT}" for name, number in parts.items())


def _call(name: str, arguments: list[str]) -> int:
    if name != "fit":  # whose words Lightning repeats to start the other workers
        # As for `python -m sweeps.run`: commands read their own arguments.
        sys.argv = [sys.argv[0], *arguments]
    module = importlib.import_module("sweeps.pcs.__main__" if name == "pcs" else f"sweeps.{name}")
    status: int = module.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
