"""The speed ladder: `sweeps ladder NAME` measures one change after another that may make training faster.

All flags: `sweeps ladder NAME --help`. Exit status: 0; 1, the first rung or the preparation failed;
2, a mistake in the flags; 130, Ctrl-C or SIGTERM (measured results are kept).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common import atomic_io, param_types
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.kinds.command import Command
from sweeps.training.config import FIT_SETTINGS
from sweeps.training.ladder.rungs import LadderConfig


def _add_settings(parser: cli_parser.Parser) -> None:
    group = parser.add_argument_group("Measurement")
    cli_parser.add(group, "seconds", float, "Time to measure each rung, in seconds.", 12.0, "SECONDS")
    named = "Name of the ladder's folder (default: ladder-, the trainable and the time of day)."
    cli_parser.add(group, "name", str | None, named, None, "NAME")
    cli_parser.add(group, "results_dir", str, "Folder of all results.", "results", "FOLDER")


COMMAND = Command(
    name="ladder",
    does="Measure what makes training faster: one change after another, each on top of those that helped.",
    settings={"seconds": float, "name": str | None, "results_dir": str},
    add=_add_settings,
    fit_settings=FIT_SETTINGS,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _climb(parse(arguments)), "\nInterrupted.")


def _climb(config: LadderConfig) -> int:
    from sweeps.training.ladder.ladder import climb  # with PyTorch, which --help does not load

    return climb(config)


def parse(arguments: Sequence[str] | None = None) -> LadderConfig:
    """The settings of the ladder.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` (status 0).
    """
    asked = COMMAND.read(arguments)
    settings = asked.settings
    params, faults = param_types.checked(asked.trainable.params_class, asked.hyperparameters)
    if not settings.seconds > 0:
        faults.append(f"--seconds {settings.seconds:g}: must be above 0")
    name = settings.name or asked.folder_name("ladder")
    folder = Path(settings.results_dir).expanduser() / name
    if fault := atomic_io.place_fault(folder):
        faults.append(f"--results-dir {settings.results_dir}: {fault}")
    elif folder.exists():
        faults.append(f"--name {name}: {folder} exists already; give another name")
    if faults:
        raise UserError("\n".join(faults))
    return LadderConfig(asked.trainable, params, settings.seconds, folder)


if __name__ == "__main__":
    sys.exit(main())
