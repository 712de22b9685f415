"""The ladder as a table, a file of figures and a picture; beside ours, what the articles tell of theirs."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.common import atomic_io
from sweeps.common.formatting import count
from sweeps.common.yaml_values import ParamValue
from sweeps.training.profiling.time_breakdown import bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sweeps.training.ladder.measure import Result, Speed

ARTICLES = {
    "as given": ("1x", "35 %"),
    "more loader workers": ("", "55 %"),
    "prepared Parquet": ("13.29x", "70 %"),
    "larger batch": ("", "85 %"),
    "DDP on all devices": ("3.63x", ""),
    "ZeRO 2 on all devices": ("21.53x", ""),
}
"""Speed-up and GPU-Util, as `NOTE` says."""
NOTE = (
    "Theirs: the speed-up of a thesis on face video with 4 PCs (DDP alone 3.63x, with Parquet 13.29x, with\n"
    "ZeRO 2, fp16 and larger batches 21.53x), and the GPU-Util of another article's model, rung by rung;\n"
    "shuffling brought that to 95 %: here rows are shuffled when they are prepared."
)
_TITLES = ("rung", "samples/s", "s/epoch", "data wait", "busy", "speed-up", "theirs", "GPU-Util")
_WIDTHS = (22, 9, 8, 9, 5, 9, 6, 8)
HEAD = "  ".join(title.ljust(width) for title, width in zip(_TITLES, _WIDTHS, strict=True))
MOST_BUSY_PCT = 20.0
"""Of all cores: others' work that the figures bear."""
KEPT, LEFT_OUT = "#0072B2", "#BBBBBB"


def machine() -> str:
    """This PC in a few words."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    what = ", ".join(gpus) or "no GPU"
    return f"{os.cpu_count()} cores ({platform.machine()}), {what}"


def notice(busy_cores: float) -> str:
    """What is to be known of the figures when other programs keep so many cores busy; "" if nothing."""
    cores = os.cpu_count() or 1
    if busy_cores / cores * 100 <= MOST_BUSY_PCT:
        return ""
    return f"other programs keep {busy_cores:.1f} of {cores} cores busy: these figures are not the PC's alone"


def number(value: float, digits: int = 4) -> str:
    """A figure with so many digits that count, as people read it: 17,580, never 1.758e+04."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def cells(result: Result) -> tuple[str, ...]:
    """One row of the table."""
    speed, told = result.speed, ARTICLES.get(result.rung, ("", ""))
    if speed is None or result.times is None:
        return result.rung, "-", "-", "-", "-", "-", *told
    busy_pct = speed.cores_busy_pct if speed.gpu_util_pct is None else speed.gpu_util_pct
    return (
        result.rung,
        number(speed.samples_s),
        number(speed.epoch_rows / speed.samples_s, 3),
        f"{speed.data_wait_pct:.0f} %",
        f"{busy_pct:.0f} %",
        f"{result.times:,.2f}x" if result.is_kept else f"({result.times:,.2f}x)",
        *told,
    )


def line(result: Result) -> str:
    """One row as the screen has it."""
    padded = "  ".join(cell.ljust(width) for cell, width in zip(cells(result), _WIDTHS, strict=True))
    return f"{padded}  {result.note}"


def summary(results: Sequence[Result]) -> str:
    """What the ladder came to."""
    kept = [result for result in results if result.is_kept and result.speed is not None]
    lines = [f"In all     {kept[-1].times:,.2f}x, by {', '.join(r.rung for r in kept[1:]) or 'nothing'}"]
    return "\n".join([*lines, *_data_alone(results), _balance(kept), NOTE])


def _balance(kept: Sequence[Result]) -> str:
    """What holds the steps back in the end, and what became of waiting and computing."""
    first, last = kept[0].speed, kept[-1].speed
    assert first is not None
    assert last is not None
    costs = {"data_wait_pct": last.data_wait_pct}
    if last.gpu_util_pct is not None:
        costs["gpu_util_pct"] = last.gpu_util_pct
    what, why = bound(costs)
    (waits, computes), (waits_now, computes_now) = _ms_of_a_row(first), _ms_of_a_row(last)
    return (
        f"Now {what}: {why}. Of a row, waiting "
        f"went from {number(waits, 3)} to {number(waits_now, 3)} ms, "
        f"computing from {number(computes, 3)} to {number(computes_now, 3)} ms"
        + (", as the CPU sees it, which runs ahead of the GPU" if last.gpu_util_pct is not None else "")
    )


def _ms_of_a_row(speed: Speed) -> tuple[float, float]:
    """In which the steps wait for it, and compute."""
    whole, waits = 1000 / speed.samples_s, speed.data_wait_pct / 100
    return whole * waits, whole * (1 - waits)


def _data_alone(results: Sequence[Result]) -> list[str]:
    """Of prepared rows beside what they took the place of: the fastest way so far to read the raw data."""
    names = [result.rung for result in results]
    if "prepared Parquet" not in names:
        return []
    at = names.index("prepared Parquet")
    raw, prepared = next((r for r in reversed(results[:at]) if r.is_kept), None), results[at]
    if raw is None or raw.speed is None or prepared.speed is None:
        return []
    before, after = raw.speed.loader_rows_s, prepared.speed.loader_rows_s
    if not before or not after:
        return []
    return [
        f"Data alone {number(before)} -> {number(after)} rows/s, {number(after / before, 3)}x: "
        f"{_read_by(raw)} -> {_read_by(prepared)}, and nothing else running"
    ]


def _read_by(result: Result) -> str:
    assert result.setup is not None
    data = "raw data" if result.setup.is_raw else "prepared rows"
    workers = result.setup.loader_workers
    by = "the loader workers of Params" if workers is None else count(workers, "loader worker")
    return f"{data} by {by}"


def write(
    folder: Path,
    trainable: str,
    params: Mapping[str, ParamValue],
    results: Sequence[Result],
    busy_cores: float,
) -> None:
    """Write ladder.md, ladder.json and ladder.png, of the rungs so far.

    Args:
        folder: of the ladder.
        trainable: its name.
        params: hyperparameters that were given.
        results: of the rungs so far.
        busy_cores: that other programs kept busy before the first one.
    """
    rows = [[*cells(result), result.note] for result in results]
    titles = [*_TITLES, "what"]
    table = [titles, ["---"] * len(titles), *rows]
    text = "\n".join("| " + " | ".join(row) + " |" for row in table)
    head = f"# Ladder of {trainable}\n\n{machine()}, {time.strftime('%Y-%m-%d')}\n\n"
    if said := notice(busy_cores):
        head += f"Notice: {said}\n\n"
    atomic_io.write(
        folder / "ladder.md", f"{head}{text}\n\n{summary(results)}\n" if _is_any(results) else text
    )
    content = {
        "trainable": trainable,
        "params": dict(params),
        "command": " ".join(["sweeps ladder", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "busy_cores_before": busy_cores,
        "notice": notice(busy_cores),
        "versions": {name: version(name) for name in ("torch", "lightning", "deepspeed")},
        "rungs": [dataclasses.asdict(result) for result in results],
    }
    atomic_io.write(folder / "ladder.json", json.dumps(content, indent=1))
    if _is_any(results):
        chart(trainable, results).savefig(folder / "ladder.png", dpi=110)


def _is_any(results: Sequence[Result]) -> bool:
    return any(result.speed is not None for result in results)


def chart(trainable: str, results: Sequence[Result]) -> Figure:
    """A bar for each rung that was measured."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.5 * len(results) + 1.4), layout="constrained")
    axes = figure.subplots()
    for row, result in enumerate(results):
        if result.speed is None or result.times is None:
            axes.text(0.01, row, f"  {result.note[:80]}", va="center", fontsize=8, transform=_across(axes))
            continue
        axes.barh(row, result.speed.samples_s, color=KEPT if result.is_kept else LEFT_OUT)
        left_out = "" if result.is_kept else ", left out"
        label = f" {number(result.speed.samples_s)}/s, {result.times:,.2f}x{left_out}"
        axes.text(result.speed.samples_s, row, label, va="center", fontsize=9)
    fastest = max(result.speed.samples_s for result in results if result.speed is not None)
    slowest = min(result.speed.samples_s for result in results if result.speed is not None)
    if fastest > 20 * slowest:
        axes.set_xscale("log")
        axes.set_xlim(slowest / 2, fastest * 4)
    else:
        axes.set_xlim(0, fastest * 1.35)
    axes.xaxis.set_major_formatter(lambda samples_s, _: number(samples_s))
    axes.set(yticks=range(len(results)), yticklabels=[result.rung for result in results])
    axes.set(xlabel="samples trained a second", title=f"{trainable} on {machine()}")
    axes.invert_yaxis()
    return figure


def _across(axes: object) -> object:
    """Places that are a share of the width, at a row's height."""
    return axes.get_yaxis_transform()  # type: ignore[attr-defined]
