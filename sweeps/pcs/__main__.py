"""Look after the PCs of a cluster: `sweeps pcs check`, and others (`--help`)

Exit status: 0, all is right; 1, something is not; 2, a mistake in what was asked; 130, Ctrl-C.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweeps.common.cli.dispatch import dispatch
from sweeps.common.cli.parser import Parser, add
from sweeps.common.errors import UserError
from sweeps.config.sweep_folder import no_sweep, sweep_named
from sweeps.pcs import cluster_file
from sweeps.ray_start import ray_environment

COMMANDS = {
    "check": "find faults on each PC over SSH: reach, versions, GPU, disk, memory, clock, ports",
    "status": "show what runs on each PC of the running cluster, and why a trial waits",
    "drain": "take a PC out of the cluster within a minute; its trials move to other PCs",
    "back": "let this PC join the cluster again after a drain",
    "down": "stop Ray on every PC of the cluster file, the workers included",
}
"""Each has a module beside this one with `run(...) -> exit status`."""
DRAIN_S = 40.0
"""That trials have to end their epoch, by default."""
MOST_DRAIN_S = 86400


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return dispatch("pcs", COMMANDS, _call, arguments)


def _call(name: str, words: list[str]) -> int:
    arguments = _FLAGS_OF[name](words)
    ray_environment.prepare_to_look()  # before Ray is imported
    exit_status: int = importlib.import_module(f"sweeps.pcs.{name}").run(**arguments)
    return exit_status


def check(words: Sequence[str]) -> dict[str, Any]:
    """The cluster file; the folder that all PCs must see, or None."""
    summary = "Find what is wrong on each PC of a cluster file, over SSH, and say what to do."
    usage = f"[{cluster_file.DEFAULT}] [--storage FOLDER]"
    parser = _parser("check", usage, summary, ["", "--storage /mnt/share"])
    help_ = "Folder that every PC must see and write to (default: none)."
    add(parser, "storage", str | None, help_, None, "FOLDER")
    file, values = _file(parser, words)
    return {"file": file, "storage": values.storage}


def status(words: Sequence[str]) -> dict[str, Any]:
    """The address of the cluster, or None; the folder of a sweep, or None."""
    summary = "Show what runs on each PC of the running cluster, and why a trial waits."
    parser = _parser("status", "[NAME] [--address HOST:6379]", summary, ["", "first"])
    help_ = "A sweep, by its name in results/ or its folder: its processes are shown by their trials."
    parser.add_argument("folder", nargs="?", metavar="NAME", help=help_)
    where = "Ray cluster, as HOST:6379, or auto for the one that this PC is in (default: every Ray of your "
    where += "own sweeps on this PC; where there is none, auto)."
    add(parser, "address", str | None, where, None, "HOST:6379")
    values = parser.values_of(words, "; give one sweep, by its name")
    folder = None if values.folder is None else sweep_named(values.folder)
    if folder is not None and (why := no_sweep(folder)) is not None:
        raise UserError(why)
    return {"address": values.address, "folder": folder}


def drain(words: Sequence[str]) -> dict[str, Any]:
    """The address of the cluster; a PC by its name or address, None for this one; seconds for its trials."""
    summary = "Take a PC out of the cluster: its trials move to other PCs, and Ray stops there."
    usage = "[PC] [--timeout-s SECONDS] [--address HOST:6379]"
    parser = _parser("drain", usage, summary, ["", "pc2"])
    parser.add_argument("pc", nargs="?", metavar="PC", help="Its name or address (default: this PC).")
    help_ = "Seconds for the current epoch; after that a trial continues from its last checkpoint."
    add(parser, "timeout_s", float, help_, DRAIN_S)
    add(parser, "address", str, "Ray cluster, as HOST:6379 or auto.", "auto")
    values = parser.values_of(words, "; give one PC, by its name or address")
    if not 0 < values.timeout_s <= MOST_DRAIN_S:
        raise UserError(f"--timeout-s {values.timeout_s:g}: must be above 0, and {MOST_DRAIN_S} at most")
    return {"address": values.address, "pc": values.pc, "timeout_s": values.timeout_s}


def back(words: Sequence[str]) -> dict[str, Any]:
    """Nothing."""
    parser = _parser("back", "", "Let this PC join the cluster again after a drain.")
    parser.values_of(words, "; type the command on the PC that is to join, without a name")
    return {}


def down(words: Sequence[str]) -> dict[str, Any]:
    """The cluster file."""
    summary = "End Ray on every PC of a cluster file, and with it all that runs there."
    parser = _parser("down", f"[{cluster_file.DEFAULT}]", summary)
    file, _ = _file(parser, words)
    return {"file": file}


def _parser(name: str, usage: str, summary: str, examples: Sequence[str] = ()) -> Parser:
    return Parser(f"sweeps pcs {name}", f"%(prog)s {usage}".rstrip(), summary, examples)


def _file(parser: Parser, words: Sequence[str]) -> tuple[cluster_file.ClusterFile, Any]:
    """The cluster file, and the other values."""
    parser.add_argument("file", nargs="?", default=cluster_file.DEFAULT, help="The cluster file.")
    values = parser.values_of(words, "; give one cluster file")
    return cluster_file.read(Path(values.file).expanduser()), values


_FLAGS_OF = {"check": check, "status": status, "drain": drain, "back": back, "down": down}
"""Each returns the arguments of `run`. It raises a UserError for a mistake, and SystemExit after `--help`."""


if __name__ == "__main__":
    sys.exit(main())
