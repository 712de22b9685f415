"""The speed ladder: train a model as it is given, then with one change after another.

Each rung adds one change to the fastest setup so far and is measured by itself; a rung that does not help is
shown and left out of those that follow. The results are a table and a JSON file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version

import torch

from sweeps.common import atomic_io
from sweeps.common.cli import json_output
from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import shown_path
from sweeps.common.imports import missing
from sweeps.common.param_types import build_params, hints_of
from sweeps.common.project import LADDER_FILE
from sweeps.training import batches
from sweeps.training.config import LadderConfig
from sweeps.training.data import preparation
from sweeps.training.ladder import rungs
from sweeps.training.ladder.rungs import AGAIN, RUNGS, Capabilities, Speed
from sweeps.training.time_breakdown import bound

PACKAGES = ("torch", "lightning", "deepspeed")
"""Those whose versions are kept with the figures."""
_TITLES = ("rung", "samples/s", "s/epoch", "data wait", "busy", "speed-up")
_WIDTHS = (22, 9, 8, 9, 5, 9)
HEAD = "  ".join(title.ljust(width) for title, width in zip(_TITLES, _WIDTHS, strict=True))
MOST_CHANGE = 0.2
"""Share by which the speed of the first rung may change until the end, and of all cores that other programs
may keep busy."""


@dataclass(frozen=True)
class Result:
    """The result of a rung."""

    rung: str
    speed: Speed | None
    times: float | None
    """Speed-up over the first rung."""
    note: str
    """The change of the rung, or why it was skipped or failed."""
    is_kept: bool
    busy_cores: float = 0.0
    """Cores that other programs kept busy before it."""


def climb(config: LadderConfig) -> int:
    """Measure rung by rung; print and write each result. Returns the exit status."""
    trainable = config.trainable
    print(f"Ladder of {trainable.name}, {config.seconds:g} s a rung, on {machine()}", flush=True)
    # Raises where the raw data is missing.
    trainable.describe_data(build_params(trainable.params_class, config.params))
    has = _capabilities(config)
    if notice := busy_notice(rungs.busy_cores()):
        print(f"Notice     {notice}: the figures may allow no verdict")
    print(f"\n{HEAD}", flush=True)
    results: list[Result] = []
    try:
        config.folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{config.folder}: {error.strerror}") from None
    json_output.answer(trainable=trainable.name, folder=str(config.folder))
    for result in _results(config, has):
        results.append(result)
        print(table_line(result), flush=True)
        json_output.write("rung", **dataclasses.asdict(result))
        write_results(config, results)
        if results[0].speed is None:
            return 1
    json_output.answer(doubt=doubt(results))
    print(f"\n{summary(results)}\n")
    for path in sorted(config.folder.iterdir()):
        print(f"           {shown_path(path)}")
    return 0


def _results(config: LadderConfig, has: Capabilities) -> Iterator[Result]:
    fastest, first_speed, best_speed = rungs.start(has), 0.0, 0.0
    for name, change in RUNGS.items():
        setup = change(fastest, has)
        if isinstance(setup, str):
            yield Result(name, None, None, f"skipped: {setup}", False)
            continue
        busy_cores = rungs.busy_cores()
        speed, reason = rungs.measure(config.trainable.name, config.params, setup, config.seconds)
        if speed is None:
            yield Result(name, None, None, f"failed: {reason}", False)
            continue
        first_speed = first_speed or speed.samples_s
        is_faster = not best_speed or speed.samples_s / best_speed > 1.02  # less is noise
        note, more = rungs.changes(fastest, setup), setup.fit.devices / fastest.fit.devices
        if name == AGAIN:
            is_faster, note = False, "the first rung once more"
        elif not is_faster:
            note = f"left out: {note}"
        elif best_speed and 1 < more < speed.samples_s / best_speed:
            is_faster = False
            note = f"left out: over {more:g}x by {setup.fit.devices} devices can't be: {note}"
        yield Result(name, speed, speed.samples_s / first_speed, note, is_faster, busy_cores)
        if is_faster:
            best_speed, fastest = speed.samples_s, setup


def _capabilities(config: LadderConfig) -> Capabilities:
    """What the PC and the trainable offer; raw data that is not prepared yet is prepared first."""
    trainable = config.trainable
    folder = preparation.prepare_for_run(trainable, config.params)
    data = trainable.build_data(build_params(trainable.params_class, config.params), folder)
    batch_rows = None
    with contextlib.suppress(CannotTrain):
        batch_rows = batches.read_batch_rows(data)
    return Capabilities(
        gpus=torch.cuda.device_count(),
        cores=os.cpu_count() or 1,
        batch_rows=batch_rows,
        has_raw=trainable.build_raw_data is not None,
        has_prepared=trainable.preparation is not None,
        has_loader_hyperparameter="loader_workers" in hints_of(trainable.params_class),
    )


def machine() -> str:
    """This PC: cores, architecture and GPUs."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{os.cpu_count()} cores ({platform.machine()}), {', '.join(gpus) or 'no GPU'}"


def number(value: float, digits: int = 4) -> str:
    """A figure with so many significant digits and no exponent: 17,580, never 1.758e+04."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def cells(result: Result) -> tuple[str, ...]:
    """A row of the table."""
    speed = result.speed
    if speed is None or result.times is None:
        return result.rung, "-", "-", "-", "-", "-"
    busy_pct = speed.cores_busy_pct if speed.gpu_util_pct is None else speed.gpu_util_pct
    return (
        result.rung,
        number(speed.samples_s),
        "-" if speed.epoch_rows is None else number(speed.epoch_rows / speed.samples_s, 3),
        f"{speed.data_wait_pct:.0f} %",
        f"{busy_pct:.0f} %",
        f"{result.times:,.2f}x" if result.is_kept else f"({result.times:,.2f}x)",
    )


def table_line(result: Result) -> str:
    """A row of the table, padded for the terminal."""
    padded = (cell.ljust(width) for cell, width in zip(cells(result), _WIDTHS, strict=True))
    return f"{'  '.join(padded)}  {result.note}"


def busy_notice(busy_cores: float) -> str:
    """That other programs keep too many cores busy; else ""."""
    cores = os.cpu_count() or 1
    if busy_cores <= MOST_CHANGE * cores:
        return ""
    return f"other programs keep {busy_cores:.1f} of {cores} cores busy"


def doubt(results: Sequence[Result]) -> str:
    """Why the figures allow no verdict; "" where they do."""
    last = results[-1]
    if said := busy_notice(max(result.busy_cores for result in results)):
        return said
    if last.rung != AGAIN or (last.times is not None and abs(last.times - 1) <= MOST_CHANGE):
        return ""
    found = last.note if last.times is None else f"was {last.times:,.2f}x as fast as at the start"
    return f"the first rung, measured again at the end, {found}"


def summary(results: Sequence[Result]) -> str:
    """The speed-up of all rungs, and what limits the fastest setup; or why that is not known."""
    if why := doubt(results):
        return f"Verdict    none: {why}. Measure again while the PC does nothing else"
    kept = [result for result in results if result.is_kept and result.speed is not None]
    last = kept[-1]
    assert last.speed is not None
    costs = {"data_wait_pct": last.speed.data_wait_pct}
    if last.speed.gpu_util_pct is not None:
        costs["gpu_util_pct"] = last.speed.gpu_util_pct
    total = f"Speed-up   {last.times:,.2f}x, by {', '.join(r.rung for r in kept[1:]) or 'no rung'}"
    return f"{total}\nLimit      {': '.join(bound(costs))}"


def write_results(config: LadderConfig, results: Sequence[Result]) -> None:
    """Write ladder.md and ladder.json, with the results so far."""
    folder, is_measured = config.folder, any(result.speed is not None for result in results)
    today = time.strftime("%Y-%m-%d")
    titles = [*_TITLES, "change"]
    table = [titles, ["---"] * len(titles), *([*cells(result), result.note] for result in results)]
    parts = [
        f"# Ladder of {config.trainable.name}",
        f"{machine()}, {today}",
        "\n".join("| " + " | ".join(row) + " |" for row in table),
        *([f"```text\n{summary(results)}\n```"] if is_measured else []),
    ]
    atomic_io.write(folder / "ladder.md", "\n\n".join(parts) + "\n")
    content = {
        "trainable": config.trainable.name,
        "params": dict(config.params),
        "command": " ".join(["sweeps ladder", *sys.argv[1:]]),
        "date": today,
        "machine": machine(),
        "doubt": doubt(results),
        "versions": {name: version(name) for name in PACKAGES if not missing(name, name)},
        "rungs": [dataclasses.asdict(result) for result in results],
    }
    atomic_io.write(folder / LADDER_FILE, json.dumps(content, indent=1))
