"""The picture: a panel for each part, a bar for each line of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks._gpu import results
from benchmarks._gpu.line import Line
from benchmarks._gpu.results import Results

TITLE_OF = {
    "train": "Training, images/s",
    "data": "Rows/s: trained, or brought to the card",
    "ladder": "Speed ladder, samples/s",
    "sharing": "Trials an hour by trials on the card",
    "overhead": "Epochs/s of 24 small trials, start and end included",
    "zero": "ZeRO 2 beside fp16: steps/s and peak memory",
}
BLUE = "#0072B2"


def draw(parts: Results, file: Path) -> None:
    """Two columns of panels, the machine below them."""
    shown = {name: lines for name, part in parts.items() if (lines := _lines(part))}
    if not shown:
        return
    columns = _columns(shown)
    height = max(sum(_height(shown[name]) for name in column) for column in columns)
    figure = Figure(figsize=(15, height + 0.8), layout="constrained")
    for panels, names in zip(figure.subfigures(1, len(columns), squeeze=False)[0], columns, strict=True):
        spare = height - sum(_height(shown[name]) for name in names)
        heights = [_height(shown[name]) for name in names] + ([spare] if spare > 0.5 else [])
        axes = panels.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for each, name in zip(axes, names, strict=False):
            _panel(each, name, shown[name])
        for each in axes[len(names) :]:
            each.set_axis_off()
    figure.suptitle(results.machines(parts), fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def _panel(axes: Axes, name: str, lines: Sequence[Line]) -> None:
    speeds = [line.speed or 0.0 for line in lines]
    axes.barh(range(len(lines)), speeds, color=BLUE, height=0.7)
    is_wide = max(speeds) > 30 * min(speeds)
    if is_wide:
        axes.set_xscale("log")
    axes.set_xlim(min(speeds) / 2 if is_wide else 0, max(speeds) * (20 if is_wide else 1.9))
    for row, line in enumerate(lines):
        axes.text(line.speed or 0.0, row, f" {_label(line)}", va="center", fontsize=8)
    axes.set_yticks(range(len(lines)), [line.what for line in lines], fontsize=8)
    axes.set_title(TITLE_OF[name], fontsize=10, loc="left")
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.set_major_formatter(lambda speed, _: f"{speed:,g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()


def _label(line: Line) -> str:
    _, speed, _, memory, util, wait = line.cells("")
    extra = [f"{memory}"] if line.memory_gb is not None else []
    extra += [f"GPU-Util {util}"] if line.gpu_util_pct is not None else []
    extra += [f"data wait {wait}"] if line.data_wait_pct is not None else []
    return ", ".join([speed.removesuffix(f" {line.unit}"), *extra])


def _columns(shown: Mapping[str, Sequence[Line]]) -> list[list[str]]:
    """The longest first, each to the shorter column; in a column in the order of the parts."""
    columns: list[list[str]] = [[], []]
    for name in sorted(shown, key=lambda name: -len(shown[name])):
        min(columns, key=lambda column: sum(_height(shown[each]) for each in column)).append(name)
    order = list(shown)
    return [sorted(column, key=order.index) for column in columns if column]


def _height(lines: Sequence[Line]) -> float:
    return 0.24 * len(lines) + 0.9


def _lines(part: Mapping[str, Any]) -> list[Line]:
    lines = [Line(**line) for line in part["lines"]]
    return [line for line in lines if line.speed]
