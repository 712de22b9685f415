"""Where the seconds of a short sweep go: `python -m benchmarks.startup`

8 trials of the CNN of `benchmarks.overhead`, at most 5 epochs each, two at a time, with the default searcher
and scheduler: from the command to the first step, and from the last epoch to the prompt. All processes are
watched from outside, 20 times a second; `startup.png` has a lane for each of them, in which the height is the
share of a core that it used.

  sweep      no preflight, no dashboard of Ray
  preflight  with a preflight
  pages      with the dashboard of Ray, as by default
  own        a model whose module imports PyTorch and Lightning at its top, as most do; it trains one step an
             epoch
  slots      16 trials at a time, which only sleep, on as many cores as there are: how long after the first
             trial the last one begins
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _measure, _processes
from benchmarks._measure import Goal
from benchmarks._processes import Watch, Watched

ARMS = {
    "sweep": ("--no-preflight", "--no-ray-dashboard"),
    "preflight": ("--no-ray-dashboard",),
    "pages": ("--no-preflight",),
    "own": ("--no-preflight", "--no-ray-dashboard"),
}
OWN = {"trainable": "benchmarks.trivial", "search-space": "benchmarks.trivial_space"}
TRIALS, EPOCHS, WORKERS, SLOTS = 8, 5, 2, 16
LEAST_DRAWN_S = 0.05
"""CPU time of a process that has a lane: launchers have none."""
MANY_CORES = """
import os, sys
os.sched_getaffinity = lambda pid: set(range({slots}))  # Ray is told of so many
from sweeps.run import main as run_main
sys.exit(run_main(sys.argv[1:]))
"""

Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runs: list[Run] = []
    drawn: list[Watched] = []
    for repeat in range(asked.repeats):
        for arm in _measure.in_turn(asked.arms, repeat):
            run, processes = slots(repeat) if arm == "slots" else timed(arm, repeat)
            runs.append(run)
            if arm == "sweep":
                drawn, shown = processes, run
            print(_words(run), flush=True)
    if drawn:
        draw(drawn, shown, _measure.results() / f"{asked.name}.png")
    print(describe(runs), flush=True)
    _measure.write(asked.name, {"arms": {**ARMS, "slots": ()}, "runs": runs}, goals(runs), "startup")
    return 0


def timed(arm: str, repeat: int) -> tuple[Run, list[Watched]]:
    """One sweep, and its processes."""
    flags = {
        "trainable": "benchmarks.digits_cnn", "search-space": "benchmarks.digits_space", "seed": repeat,
        "num-trials": TRIALS, "max-epochs": EPOCHS, "max-concurrent": WORKERS, "cpus-per-trial": 1,
        "precision": 32, "name": "sweep", **(OWN if arm == "own" else {}),
    }  # fmt: skip
    command = [sys.executable, "-m", "sweeps.run", *_words_of(flags), *ARMS[arm]]
    return _watched(arm, repeat, command)


def slots(repeat: int) -> tuple[Run, list[Watched]]:
    """As many trials at a time as a large PC has cores."""
    flags = {
        "trainable": "benchmarks.sleeper", "search-space": "benchmarks.trivial_space", "seed": repeat,
        "num-trials": SLOTS, "max-epochs": 2, "max-concurrent": SLOTS, "cpus-per-trial": 1,
        "scheduler": "none", "searcher": "random", "name": "sweep",
    }  # fmt: skip
    command = [sys.executable, "-c", MANY_CORES.format(slots=SLOTS), *_words_of(flags), *ARMS["sweep"]]
    return _watched("slots", repeat, command)


def _watched(arm: str, repeat: int, command: Sequence[str]) -> tuple[Run, list[Watched]]:
    from sweeps.record.record import Record

    busy = _measure.busy_cores()
    with tempfile.TemporaryDirectory(prefix="startup-") as base:
        watch, printed = Watch(), dict[str, float]()
        watch.start()
        process = subprocess.Popen(
            [*command, "--results-dir", base], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        watch.driver = process.pid
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            printed.setdefault(line.split(" ")[0].strip(), time.time() - watch.began)
        process.wait()
        prompt_s = time.time() - watch.began
        watch.stop()
        if process.returncode != 0:
            raise RuntimeError("".join(said)[-3000:])
        trials = Record.read(Path(base) / "sweep").trials
    starts = sorted(min(row.time - row.seconds for row in trial.epochs.values()) for trial in trials)
    last = max(row.time for trial in trials for row in trial.epochs.values()) - watch.began
    first = starts[0] - watch.began
    processes = list(watch.processes.values())
    return {
        "arm": arm, "repeat": repeat, "planned_s": printed["sweep"], "ray_s": printed["ray"],
        "first_step_s": first, "last_epoch_s": last, "prompt_s": prompt_s, "end_s": prompt_s - last,
        "last_start_after_s": starts[min(len(starts), SLOTS) - 1] - starts[0],
        "cpu_to_first_step_s": {
            role: sum(each.cpu_s(first) for each in group)
            for role, group in _processes.by_role(processes).items()
        },
        "cpu_s": sum(each.cpu_s() for each in processes), "busy_before": busy,
    }, processes  # fmt: skip


def draw(processes: Sequence[Watched], run: Run, file: Path) -> None:
    """A lane for each process."""
    from matplotlib.figure import Figure

    lanes = [
        each
        for group in _processes.by_role(processes).values()
        for each in group
        if each.cpu_s() >= LEAST_DRAWN_S
    ]
    figure = Figure(figsize=(12, 0.42 * len(lanes) + 1.6), layout="constrained")
    axes = figure.subplots()
    for row, each in enumerate(reversed(lanes)):
        times, cpu = zip(*each.samples, strict=True)
        used = [
            (one - before) / (now - then) if now > then else 0.0
            for (then, before), (now, one) in zip(each.samples, each.samples[1:], strict=False)
        ]
        smooth = [
            sum(used[max(0, at - 2) : at + 3]) / len(used[max(0, at - 2) : at + 3]) for at in range(len(used))
        ]
        tops = [row + 0.85 * min(1.0, share) for share in smooth]
        axes.fill_between(times[1:], row, tops, color="#0072B2", linewidth=0)
        axes.plot([times[0], times[-1]], [row, row], color="0.6", linewidth=0.8)
        axes.text(times[-1], row + 0.1, f" {cpu[-1]:.1f} s", fontsize=8, color="0.3")
    axes.set_yticks(
        [row + 0.3 for row in range(len(lanes))], [each.role for each in reversed(lanes)], fontsize=8
    )
    marks = {"planned_s": "planned", "ray_s": "Ray is there", "first_step_s": "first step",
             "last_epoch_s": "last epoch", "prompt_s": "prompt"}  # fmt: skip
    for key, name in marks.items():
        axes.axvline(run[key], color="#D55E00", linewidth=0.8)
        axes.text(
            run[key], len(lanes) + 0.1, f"{name}\n{run[key]:.1f} s", fontsize=8, ha="center", va="bottom"
        )
    axes.set_ylim(0, len(lanes) + 0.05)
    axes.set_xlim(0, None)
    axes.set_xlabel("seconds; the height of a lane is the share of a core, its figure the CPU time in all")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def describe(runs: Sequence[Run]) -> str:
    """Medians by arm, and the CPU time up to the first step by role."""
    titles = ("sweep", "planned s", "Ray s", "first step s", "CPU s to it", "last start after s", "end s")
    keys = ("planned_s", "ray_s", "first_step_s", "", "last_start_after_s", "end_s")
    rows = []
    for arm in dict.fromkeys(run["arm"] for run in runs):
        mine = [run for run in runs if run["arm"] == arm]
        to_first = _measure.median([sum(run["cpu_to_first_step_s"].values()) for run in mine])
        values = [_measure.median([run[key] for run in mine]) if key else to_first for key in keys]
        rows.append((arm, *(_measure.number(value, 1) for value in values)))
    mine = [run for run in runs if run["arm"] == "sweep"]
    roles = dict.fromkeys(role for run in mine for role in run["cpu_to_first_step_s"])
    cpu = [
        (role, _measure.number(_measure.median([run["cpu_to_first_step_s"].get(role, 0.0) for run in mine])))
        for role in roles
    ]
    return _measure.table(titles, rows) + "\n\n" + _measure.table(("CPU s to the first step", ""), cpu)


def goals(runs: Sequence[Run]) -> list[Goal]:
    def of(arm: str, key: str) -> float | None:
        return _measure.median([run[key] for run in runs if run["arm"] == arm])

    both = of("preflight", "first_step_s"), of("sweep", "first_step_s")
    more = None if both[0] is None or both[1] is None else both[0] - both[1]
    return [
        Goal("first_step_s", both[1], "<=", 4.0),
        Goal("end_s", of("sweep", "end_s"), "<=", 1.5),
        Goal("preflight_more_s", more, "<=", 1.5),
        Goal("last_of_16_after_s", of("slots", "last_start_after_s"), "<=", 2.0),
    ]


def _words(run: Run) -> str:
    return (
        f"{run['arm']}, repeat {run['repeat'] + 1}: first step after {run['first_step_s']:.1f} s, prompt "
        f"{run['end_s']:.1f} s after the last epoch ({run['busy_before']:.1f} cores busy before)"
    )


def _words_of(flags: dict[str, Any]) -> list[str]:
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.startup", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=3)
    arms = [*ARMS, "slots"]
    parser.add_argument("--arms", nargs="+", choices=arms, default=arms)
    parser.add_argument("--name", default="startup", help="of the files of results (default: startup)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
