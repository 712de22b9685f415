"""The speed ladder: `python -m training.ladder NAME` trains a model as it is given, then ever faster.

Each rung adds one thing to the fastest set-up so far, and is measured by itself; one that does not help is
shown and left out. All flags: `python -m training.ladder NAME --help`. Exit status: 0; 1, the first rung or
the preparation failed; 2, a mistake in what was asked; 130, Ctrl-C or SIGTERM (what is measured is kept).
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.cli import param_flags
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.command import Command, status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import place
from sweeps.common.yaml_values import Knob
from training import ladder_rungs, speed
from training.ladder_rungs import Place
from training.speed import Setup, Speed

HELPS = 1.02
"""Of the fastest so far; less is noise."""


def _add_settings(parser: cli_parser.Parser) -> None:
    group = parser.add_argument_group("How")
    cli_parser.add(group, "seconds", float, "Time to measure each rung, in seconds.", 12.0)
    named = "Name of its folder (default: ladder-, the trainable, the time)."
    cli_parser.add(group, "name", str | None, named, None)
    cli_parser.add(group, "results_dir", str, "Folder that holds it.", "results")


COMMAND = Command(
    name="python -m training.ladder",
    does="Train as it is given, then ever faster, one thing at a time: what each brings.",
    wants="what to train",
    settings={"seconds": float, "name": str | None, "results_dir": str},
    add=_add_settings,
)


@dataclass(frozen=True)
class Asked:
    """A ladder that is asked for."""

    trainable: str
    module: ModuleType
    params: Mapping[str, Knob]
    seconds: float
    folder: Path


@dataclass(frozen=True)
class Result:
    """What became of a rung."""

    rung: str
    speed: Speed | None
    times: float | None
    """As fast as the first rung."""
    note: str
    """Why it was left out, or could not be; what it was."""
    is_kept: bool
    setup: Setup | None = None
    """Of what was measured."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: climb(parse(arguments)), "\nInterrupted.")


def climb(asked: Asked) -> int:
    """Measure rung by rung, say and keep each; the exit status."""
    from training import ladder_table
    from training.prepared import describe_data

    print(f"Ladder of {asked.trainable}, {asked.seconds:g} s each, on {ladder_table.machine()}", flush=True)
    describe_data(asked.trainable, asked.module, asked.module.Params(**asked.params))
    where = _place(asked)
    busy_cores = speed.busy_cores()
    if notice := ladder_table.notice(busy_cores):
        print(f"Notice     {notice}")
    print(f"\n{ladder_table.HEAD}", flush=True)
    results: list[Result] = []
    try:
        asked.folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{asked.folder}: {error.strerror}") from None
    for result in _results(asked, where):
        results.append(result)
        print(ladder_table.line(result), flush=True)
        ladder_table.write(asked.folder, asked.trainable, asked.params, results, busy_cores)
        if results[0].speed is None:
            return 1
    print(f"\n{ladder_table.summary(results)}\n")
    for path in sorted(asked.folder.iterdir()):
        print(f"           {place(path)}")
    return 0


def _results(asked: Asked, where: Place) -> Iterator[Result]:
    setup, start, best = ladder_rungs.first(where), 0.0, 0.0
    for rung in ladder_rungs.RUNGS:
        changed = rung.set_up(setup, where)
        if isinstance(changed, str):
            yield Result(rung.name, None, None, f"can't be here: {changed}", False)
            continue
        found, reason = speed.measure(asked.trainable, asked.params, changed, asked.seconds)
        if found is None:
            yield Result(rung.name, None, None, f"failed: {reason}", False)
            continue
        start = start or found.samples_s
        helps = found.samples_s > HELPS * best
        words = ladder_rungs.in_words(setup, changed)
        note = words if helps else f"left out: {words}"
        yield Result(rung.name, found, found.samples_s / start, note, helps, changed)
        if helps:
            best, setup = found.samples_s, changed


def _place(asked: Asked) -> Place:
    """What there is; raw data is prepared first, where it is not yet."""
    import torch

    from training import batch_size, preparation, prepared

    module: Any = asked.module
    folder = preparation.of_trial(asked.trainable, module, asked.params)
    data = prepared.build_data(module, module.Params(**asked.params), folder)
    return Place(
        gpus=torch.cuda.device_count(),
        cores=os.cpu_count() or 1,
        batch_rows=batch_size.of(data),
        has_raw=hasattr(module, "build_raw_data"),
        has_prepared=prepared.has_preparation(module),
        has_loader_knob="loader_workers" in {field.name for field in dataclasses.fields(module.Params)},
    )


def parse(arguments: Sequence[str] | None = None) -> Asked:
    """What is asked for.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` (status 0).
    """
    asked = COMMAND.read(arguments)
    module, settings = asked.module, asked.settings
    params, faults = param_flags.checked(module.Params, asked.knobs)
    if not settings.seconds > 0:
        faults.append(f"--seconds {settings.seconds:g}: must be above 0")
    folder = Path(settings.results_dir).expanduser() / (settings.name or asked.folder_name("ladder"))
    if fault := atomic_io.place_fault(folder):
        faults.append(f"--results-dir {settings.results_dir}: {fault}")
    elif folder.exists():
        faults.append(f"--name {settings.name}: {folder} is there already; give another name")
    if faults:
        raise UserError("\n".join(faults))
    return Asked(asked.trainable, module, params, settings.seconds, folder)


if __name__ == "__main__":
    sys.exit(main())
