"""One sweep of 32 configurations for 50 epochs, made faster step by step: `python -m benchmarks.story`

  naive     each row is read from its file when it is needed; one process, one configuration after another
  prepared  the same on rows that were prepared once, in Parquet
  loader    with loader workers, or larger batches
  precision in half precision, where there is a GPU
  packed    several trials at a time, by `sweeps run`
  pruned    pruned by successive halving
  proposed  proposed by gp, until a trial is as good as the naive sweep's best, less one standard error

Beside them stand a shell loop, Ray Tune the documented way with ASHA, and Optuna with its successive halving,
all three on the prepared rows.

The workload `fashion_cnn` reads a PNG file for each image, `faces` finds each face anew in its video (`make
faces`). The first rungs are timed on some epochs of some configurations and computed for the rest; the table
says how much of each was measured. What is finished is kept in --folder: after Ctrl-C, or when --minutes are
over, the same command goes on. When all is measured, results/story.json and docs/images/story.svg are
written, and the next run measures anew.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._measure import Goal
from benchmarks._story import picture
from benchmarks._story.parts import Rung
from benchmarks._story.rungs import (
    NEEDS,
    PEERS,
    RUNGS,
    STEPS,
    TITLES,
    NotHere,
    Step,
    Story,
    rehearse_precision,
)
from benchmarks._story.workloads import WORKLOADS, Workload, smallest
from sweeps.common.atomic_io import atomic_write
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, duration
from sweeps.common.local_dirs import cache_dir

NAME = "story"
GOAL_TIMES = 200.0
BUSY_CORES = 0.3
"""From which on a line says that the machine is not idle."""


@dataclasses.dataclass
class Kept:
    """The file of what is finished, of one workload: written after each step."""

    path: Path
    workload: Workload
    steps: dict[str, Step] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._settings = json.loads(json.dumps(_settings(self.workload)))  # as it is read again
        if self.path.exists():
            told = json.loads(self.path.read_text())
            if told["settings"] != self._settings:
                raise UserError(
                    f"{self.path} holds rungs of other settings: remove it to measure anew, or give another "
                    "--folder"
                )
            self.steps = told["steps"]

    def add(self, name: str, step: Step) -> None:
        self.steps[name] = step
        with atomic_write(self.path) as part:
            part.write_text(json.dumps({"settings": self._settings, "steps": self.steps}, indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    until = time.monotonic() + 60 * asked.minutes
    for name in asked.workload:
        workload = smallest(WORKLOADS[name]) if asked.quick else WORKLOADS[name]
        if asked.repeats:
            workload = dataclasses.replace(workload, repeats=asked.repeats)
        folder = asked.folder / ("quick" if asked.quick else "") / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            kept = Kept(folder / "steps.json", workload)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        story = Story(workload, folder, len(os.sched_getaffinity(0)), _has_gpu(), kept.steps)
        try:
            measure(story, with_needed(asked.rungs), kept, until, is_rehearsal=asked.quick)
        except KeyboardInterrupt:
            print(f"\nInterrupted. {kept.path} holds what is finished; the same command goes on.")
            return 130
        finally:
            print(describe(story), flush=True)
        if not asked.quick and STEPS.keys() <= kept.steps.keys():
            write(story)
            kept.path.unlink()
    return 0


def with_needed(rungs: Sequence[str]) -> list[str]:
    """The steps of some rungs, with those that they read, in the order of STEPS."""
    found = set(rungs).union(*(NEEDS.get(rung, ()) for rung in rungs))
    return [step for step in STEPS if step in found]


def measure(story: Story, steps: Sequence[str], kept: Kept, until: float, is_rehearsal: bool) -> None:
    """Take the steps that are not finished, up to a moment."""
    todo = [step for step in steps if step not in kept.steps]
    minutes_of = story.workload.minutes_of
    whole = _about(sum(map(minutes_of, todo)))
    print(f"{story.workload.name}: {count(len(todo), 'part')} to measure{whole}", flush=True)
    for number, name in enumerate(todo, 1):
        usual_s = 60 * minutes_of(name)
        if time.monotonic() + usual_s > until:
            print(f"--minutes are over before {TITLES[name]}; the same command goes on.", flush=True)
            return
        busy = _measure.busy_cores()
        print(f"{number}/{len(todo)} {TITLES[name]}{_about(minutes_of(name))}", flush=True)
        if busy > BUSY_CORES:
            print(
                f"  {busy:.1f} cores are busy with other work: the figures count on an idle machine",
                flush=True,
            )
        began = time.monotonic()
        take = rehearse_precision if is_rehearsal and name == "precision" else STEPS[name]
        try:
            step = take(story)
        except NotHere as error:
            step = {"skipped": str(error)}
            print(f"  left out: {error}", flush=True)
        kept.add(name, {**step, "busy_before": round(busy, 2), "took_s": round(time.monotonic() - began, 1)})
        if "rung" in step:
            print(f"  {words(story, name)}", flush=True)


def _about(minutes: float) -> str:
    """What usually takes so long; "" where that is not known."""
    return f", about {duration(60 * minutes)} on 2 cores" if minutes else ""


def words(story: Story, name: str) -> str:
    """A rung in a line."""
    rung = story.rung(name)
    found = f"{duration(rung.total_s.value)} for the whole sweep, {rung.measured_pct:.0f} % of it measured"
    if (naive := _naive(story)) is not None and name != "naive":
        found += f"; {rung.times_as_fast_as(naive).value:.1f} times as fast as at first"
    return found


def rows(story: Story) -> list[dict[str, Any]]:
    """Of each rung and peer that was measured, its figures."""
    naive, found = _naive(story), []
    for name in (*RUNGS, *PEERS):
        if "rung" not in story.steps.get(name, {}):
            continue
        rung = story.rung(name)
        total, quality = rung.total_s, rung.quality
        row: dict[str, Any] = {
            "rung": name, "title": TITLES[name], "is_peer": name in PEERS,
            **{f"{key}_s": round(value, 2) for key, value in total._asdict().items()},
            "measured_pct": round(rung.measured_pct, 1), "val_acc": round(quality.val, 4),
            "val_error": round(quality.val_error, 4), "note": rung.note,
            "borrowed_from": quality.borrowed_from, "busy_before": story.steps[name]["busy_before"],
        }  # fmt: skip
        if quality.test is not None:
            error = quality.test_error
            row |= {"test_acc": round(quality.test, 4), "test_error": round(error or 0.0, 4)}
        if naive is not None:
            row["times"] = [round(value, 2) for value in rung.times_as_fast_as(naive)]
            row["is_worse"] = quality.is_worse_than(naive.quality)
        found.append(row)
    return found


def describe(story: Story) -> str:
    """The table."""
    titles = (
        "the whole sweep",
        "time",
        "95 % interval",
        "measured",
        "times as fast",
        "val_acc",
        "test_acc",
        "",
    )
    lines = []
    for row in rows(story):
        times, low, high = row.get("times", (None, None, None))
        test = f"{row['test_acc']:.3f} ± {row['test_error']:.3f}" if "test_acc" in row else "-"
        lines.append(
            (
                ("beside: " if row["is_peer"] else "") + row["title"],
                duration(row["value_s"]),
                f"{duration(row['low_s'])} to {duration(row['high_s'])}",
                f"{row['measured_pct']:.0f} %",
                "-" if times is None else f"{times:.1f} ({low:.1f} to {high:.1f})",
                f"{row['val_acc']:.3f} ± {row['val_error']:.3f}",
                test + (" worse" if row.get("is_worse") else ""),
                row["note"],
            )
        )
    skipped = [
        f"{TITLES[name]}: left out: {s['skipped']}" for name, s in story.steps.items() if "skipped" in s
    ]
    return "\n".join([f"\n{story.workload.name}", _measure.table(titles, lines), *skipped])


def markdown(found: Sequence[dict[str, Any]]) -> str:
    """The table of docs/benchmarks.md."""
    lines = [["way", "the whole sweep", "measured", "times as fast", "accuracy on test rows"], ["---"] * 5]
    for row in found:
        low, high = (duration(row[f"{end}_s"]) for end in ("low", "high"))
        time_ = duration(row["value_s"]) + (f" ({low} to {high})" if low != high else "")
        test = f"{100 * row['test_acc']:.1f} ± {100 * row['test_error']:.1f} %" if "test_acc" in row else "-"
        lines.append([row["title"], time_, f"{row['measured_pct']:.0f} %", f"{row['times'][0]:.1f}", test])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(story: Story) -> None:
    """`story.json` with this workload beside the others, and the picture."""
    file = _measure.results() / f"{NAME}.json"
    others = json.loads(file.read_text())["workloads"] if file.exists() else {}
    found = rows(story)
    own = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": _measure.machine(),
        "settings": _settings(story.workload),
        "rows": found,
        "skipped": {name: step["skipped"] for name, step in story.steps.items() if "skipped" in step},
        "steps": story.steps,
    }
    workloads = {**others, story.workload.name: own}
    last = next(row for row in reversed(found) if not row["is_peer"])
    goals = [Goal(f"times_as_fast_{story.workload.name}", last["times"][0], ">=", GOAL_TIMES)]
    worse = sum(row["is_worse"] for row in found if not row["is_peer"])
    goals.append(Goal(f"rungs_that_lose_quality_{story.workload.name}", worse, "<=", 0))
    _measure.write(NAME, {"workloads": workloads}, goals)
    picture.write(workloads)
    print(f"\nThe table of docs/benchmarks.md:\n{markdown(found)}", flush=True)


def _settings(workload: Workload) -> dict[str, Any]:
    """What all rungs have in common: a rung says by itself how often it was measured."""
    settings = dataclasses.asdict(workload)
    return {name: value for name, value in settings.items() if name not in ("minutes", "repeats")}


def _naive(story: Story) -> Rung | None:
    return story.rung("naive") if "rung" in story.steps.get("naive", {}) else None


def _has_gpu() -> bool:
    import torch  # here: it takes a second, and --help needs none

    return torch.cuda.is_available()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.story",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, default = parser.add_argument, "(default: %(default)s)"
    add("--workload", nargs="+", choices=[*WORKLOADS], default=["fashion_cnn"], help=default)
    choices = [*RUNGS, *PEERS]
    add("--rungs", nargs="+", choices=choices, default=choices, help="some of them, with what they need")
    add(
        "--minutes",
        type=float,
        default=120.0,
        help=f"after which no part is begun that would end later {default}",
    )
    add("--repeats", type=int, help="of a rung that takes minutes (default: 3)")
    add("--quick", action="store_true", help="rehearse with so little training that no figure means anything")
    add("--folder", type=Path, default=cache_dir() / NAME, help=f"of what is finished {default}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
