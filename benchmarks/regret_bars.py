"""The bar chart and the table of searches beside each other: `python -m benchmarks.regret_bars`

It reads results/regret.json, writes docs/images/regret.svg, and prints the table of docs/benchmarks.md. Of a
program that was measured with several pruners, each panel of the chart shows the one that did best there. The
results are those of this command, for which W&B's engine is installed as `_wandb.py` says:

python -m benchmarks.search --set check --name regret --slots 4 --repeats 20 --budgets 160 500 --arms \\
    random gp+halving "Ray OptunaSearch + ASHA, grace 1" "Ray OptunaSearch + ASHA, grace 3" \\
    "Optuna TPE + Hyperband" "Optuna TPE + successive halving" "Optuna TPE + median" \\
    "W&B Bayes + Hyperband" "W&B Bayes + Hyperband, not strict"
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import _svg
from benchmarks._svg import FAINT, OTHER, OWN, TEXT

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "regret.svg"
BUDGET, SLOTS = 500, 4
OURS = "gp+halving"
PROGRAMS = {
    OURS: ("sweeps", "as it comes"),
    "Optuna": ("Optuna", "TPE and a pruner"),
    "W&B": ("W&B Sweeps", "Bayes and Hyperband"),
    "Ray": ("Ray Tune", "OptunaSearch and ASHA"),
    "random": ("Random search", "nothing is pruned"),
}
"""How the names of its arms begin, to the program and what it searches with."""
PANELS = {"lcbench": "Networks for 11 tables of data", "fashion_cnn": "A small CNN for images"}
"""Family of problems, to its title."""
ARMS = {
    OURS: "**`sweeps`: `gp` with `halving`** (the default)",
    "W&B Bayes + Hyperband": "W&B Sweeps: Bayes with Hyperband",
    "W&B Bayes + Hyperband, not strict": "W&B Sweeps: the same with `strict: false`",
    "Optuna TPE + Hyperband": "Optuna: TPE with `HyperbandPruner`",
    "Optuna TPE + successive halving": "Optuna: TPE with `SuccessiveHalvingPruner`",
    "Optuna TPE + median": "Optuna: TPE with `MedianPruner`",
    "Ray OptunaSearch + ASHA, grace 3": "Ray Tune: OptunaSearch with ASHA",
    "Ray OptunaSearch + ASHA, grace 1": "Ray Tune: the same, first rung at epoch 1",
    "random": "Random search, nothing is pruned",
}
"""To what the table calls them."""

WIDTH, HEIGHT = 830, 264
LEFT, TOP, PITCH, THICKNESS = (288, 572), 112, 29, 17
LENGTH = 190
"""Of the longest bar with its interval."""
UNDER_TITLE = f"Points of accuracy; less is better. {SLOTS} trials at a time. Lines: 95 % intervals."


class Bar(NamedTuple):
    """Of one program in one panel."""

    program: str
    value: float
    low: float
    high: float


def bars(rows: Sequence[Mapping[str, Any]], family: str) -> list[Bar]:
    """Of each program that was measured, the best arm; in the order of PROGRAMS."""
    found = []
    for program in PROGRAMS:
        arms = [
            Bar(program, *row["choice"])
            for row in rows
            if (row["family"], row["slots"], row["budget"]) == (family, SLOTS, BUDGET)
            and row["arm"].startswith(program)
        ]
        if arms:
            found.append(min(arms, key=lambda bar: bar.value))
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of the table in the documentation: every arm at every number of epochs."""
    budgets = sorted({row["budget"] for row in rows})
    columns = [(family, budget) for family in PANELS for budget in budgets]
    found = {(row["family"], row["budget"], row["arm"]): row["choice"] for row in rows}
    words = {"lcbench": "tables", "fashion_cnn": "images"}
    titles = [f"{words[family]}, {budget} epochs" for family, budget in columns]
    lines = [["search", *titles], ["---"] * (1 + len(columns))]
    for arm, title in ARMS.items():
        cells = [found[family, budget, arm] for family, budget in columns]
        lines.append([title, *("{:.1f} ({:.1f} to {:.1f})".format(*cell) for cell in cells)])
    return [f"| {' | '.join(line)} |" for line in lines]


def picture(rows: Sequence[Mapping[str, Any]]) -> str:
    """The chart as SVG."""
    panels = {family: bars(rows, family) for family in PANELS}
    order = [bar.program for bar in sorted(next(iter(panels.values())), key=lambda bar: bar.value)]
    title = f"How far from the best setting after {BUDGET} trained epochs"
    lines = []
    for place, program in enumerate(order):
        name, how = PROGRAMS[program]
        y = TOP + place * PITCH + THICKNESS - 4
        lines.append(
            f'<text x="20" y="{y}" fill="{TEXT}"><tspan font-weight="600">{escape(name)}</tspan> '
            f'<tspan fill="{FAINT}">{escape(how)}</tspan></text>'
        )
    for left, (family, found) in zip(LEFT, panels.items(), strict=True):
        lines.append(_svg.text(left, TOP - 16, PANELS[family], weight=600))
        scale = LENGTH / max(bar.high for bar in found)
        for bar in found:
            lines += _bar(left, TOP + order.index(bar.program) * PITCH, scale, bar)
    return _svg.chart(WIDTH, HEIGHT, title, UNDER_TITLE, lines)


def _bar(left: float, top: float, scale: float, bar: Bar) -> list[str]:
    width, low, high = (round(scale * max(0.0, value), 1) for value in bar[1:])
    is_own = bar.program == OURS
    return [
        _svg.bar(left, top, width, THICKNESS, OWN if is_own else OTHER),
        _svg.whisker(left + low, left + high, top + THICKNESS / 2),
        _svg.text(left + high + 8, top + THICKNESS - 4, f"{bar.value:.1f}", weight=600 if is_own else 400),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regret_bars",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    rows = json.loads((RESULTS / "regret.json").read_text())["summary"]
    PICTURE.write_text(picture(rows))
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
