"""Prepare a trainable's raw data once: `sweeps prepare NAME`

All flags: `sweeps prepare NAME --help`. Exit status: 0; 1, it could not be prepared; 2, a user's mistake;
130, Ctrl-C (what is prepared is kept, and the same command continues).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.common.cli import json_output
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import refuse
from sweeps.common.formatting import command, shown_path
from sweeps.common.settings import Settings, setting
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds.command import Command
from sweeps.kinds.trainable import Trainable
from sweeps.training.config import FIT_SETTINGS, MAX_BAD_PCT

if TYPE_CHECKING:
    from sweeps.training.data.dataset import DataSet


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Settings):
    """Settings of a preparation."""

    trainable: Trainable
    """Whose data is prepared."""
    hyperparameters: Mapping[str, ParamValue]
    """Those that rows depend on."""
    max_bad_pct: float = setting(MAX_BAD_PCT, least=0, most=100, group="How")
    """Largest share of corrupt raw files that are left out, in percent."""
    address: str | None = setting(None, metavar="HOST:PORT")
    """Ray cluster to join, as HOST:6379 or auto (default: start one on this PC)."""
    check: bool = False
    """Compare prepared data with its checksums."""


COMMAND = Command(
    name="prepare",
    does="Prepare raw data once, for all trials that train on it.",
    examples=("", "--check"),
    settings={n: PrepareConfig.settings()[n] for n in ("max_bad_pct", "address", "check")},
    fit_settings=FIT_SETTINGS,
    is_of_raw_data=True,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    again = command("prepare", *(sys.argv[1:] if arguments is None else arguments))
    interrupted = f"\nInterrupted. The finished part is kept.\nContinue   {again}"
    return status_of(lambda: prepare(parse(arguments)), interrupted)


def prepare(asked: PrepareConfig) -> int:
    """Prepare what is not prepared yet, or compare prepared data with its checksums; the exit status."""
    from sweeps.training.data import dataset, preparation, shards

    data_set = dataset.find_data_set(asked.trainable, asked.hyperparameters)
    if not asked.check:
        preparation.ensure_prepared(data_set, asked.max_bad_pct, asked.address, has_to_say=True)
        _answer(data_set)
        return 0
    try:
        damaged = shards.checksum_faults(data_set.folder, shards.Manifest.read(data_set.folder))
    except shards.NotPrepared as error:  # a preparation finds this by itself
        print(f"error: {error}\nRemedy     {data_set.command()}", file=sys.stderr)
        json_output.answer(error=str(error), remedy=data_set.command())
        return 1
    for fault in damaged.values():
        print(f"error: {fault}", file=sys.stderr)
    if damaged:
        removed = shlex.join(["rm", *(shown_path(path) for path in damaged)])
        remedy = f"{removed} && {data_set.command()}"
        print(f"Remedy     {remedy}", file=sys.stderr)
        json_output.answer(error="\n".join(map(str, damaged.values())), remedy=remedy)
        return 1
    print(f"intact: {data_set.in_a_line()}")
    _answer(data_set)
    return 0


def _answer(data_set: DataSet) -> None:
    manifest = data_set.manifest()
    assert manifest is not None, "it has just been prepared or checked"
    json_output.answer(
        folder=str(data_set.folder),
        rows={split: manifest.rows(split) for split in manifest.splits},
        size_bytes=sum(shard.size_bytes for shard in manifest.shards),
        skipped=manifest.about["skipped"],
    )


def parse(arguments: Sequence[str] | None = None) -> PrepareConfig:
    """Parse the command line.

    Raises:
        UserError: every fault, one a line.
        SystemExit: after `--help` (status 0).
    """
    asked = COMMAND.read(arguments)
    config = PrepareConfig(trainable=asked.trainable, hyperparameters=asked.params, **asked.settings)
    refuse([*asked.faults, *config.out_of_bounds()])
    return config


if __name__ == "__main__":
    sys.exit(main())
