"""The speed ladder: `sweeps ladder NAME` measures one change after another that may make training faster.

All flags: `sweeps ladder NAME --help`. Exit status: 0; 1, the first rung or the preparation failed;
2, a mistake in the flags; 130, Ctrl-C or SIGTERM (measured results are kept).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sweeps.common import atomic_io, imports
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import refuse
from sweeps.kinds.command import Command
from sweeps.kinds.trainable import as_lightning
from sweeps.training.config import FIT_SETTINGS, LadderConfig

COMMAND = Command(
    name="ladder",
    does="Measure what makes training faster: one change after another, each on top of those that helped.",
    examples=("", "--seconds 30"),
    settings={n: each for n, each in LadderConfig.settings().items() if n not in ("trainable", "params")},
    fit_settings=FIT_SETTINGS,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: _climb(parse(arguments)), "\nInterrupted.")


def _climb(config: LadderConfig) -> int:
    for line in imports.newer_than_tested():
        print(f"warning    {line}", flush=True)
    from sweeps.training.ladder.ladder import climb  # with PyTorch, which --help does not load

    return climb(config)


def parse(arguments: Sequence[str] | None = None) -> LadderConfig:
    """The settings of the ladder.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` (status 0).
    """
    asked = COMMAND.read(arguments)
    settings = {**asked.settings, "name": asked.folder_name("ladder")}
    config = LadderConfig(trainable=as_lightning(asked.trainable), params=asked.params, **settings)
    faults = [*asked.faults, *config.out_of_bounds()]
    if fault := atomic_io.place_fault(config.folder):
        faults.append(f"--results-dir {config.results_dir}: {fault}")
    elif config.folder.exists():
        faults.append(f"--name {config.name}: {config.folder} exists already; give another name")
    refuse(faults)
    return config


if __name__ == "__main__":
    sys.exit(main())
