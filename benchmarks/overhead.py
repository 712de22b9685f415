"""What a sweep costs beside its peers and beside no sweep at all: `python -m benchmarks.overhead`

Scikit-learn's digits, the same seeded params, ASHA with rungs at 1, 3 and 9 of 20 epochs, two trials at
a time with one PyTorch thread each, no dashboard. Every arm is timed from the start of its processes to
the exit of the last one. ASHA is asynchronous, so the arms train different numbers of epochs: what is
compared is the time per epoch that was trained.

  a  this program, by its command line, with random proposals
  b  Ray Tune the documented way: function trainable, Trainer, report and checkpoint each epoch
  c  the same with reuse_actors=True
  d  Optuna alone: 2 processes over a journal, lean Trainer, successive halving, no checkpoints
  e  floor: the epochs that (a) trained, a plain PyTorch loop in 2 processes
  f  floor: the epochs that (a) trained, one fit() of a lean Trainer per trial in 2 processes
  g  this program with tpe and asha
  h  this program with its default, gp and halving: trials pause at rungs. As many trials as take, by the
     plans, the epochs of (g): more, since halving stops more of them early

`cnn_long` is `cnn` with ten times the steps in an epoch.

`--reports 200` measures something else alone: how long `trial.report` keeps a function waiting that calls
it ten times a second.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._job import Job
from benchmarks._measure import Goal

ARMS = {
    "a": "sweeps",
    "b": "Ray Tune",
    "c": "Ray Tune, reuse_actors",
    "d": "Optuna alone",
    "e": "floor, plain loop",
    "f": "floor, Lightning",
    "g": "sweeps, tpe + asha",
    "h": "sweeps, gp + halving",
}
WORKERS, MAX_EPOCHS, GRACE_EPOCHS, REDUCTION_FACTOR = 2, 20, 1, 3
NAMES = {
    "cnn": ("benchmarks.digits_cnn", "benchmarks.digits_space"),
    "mlp": ("digits_mlp", "digits_mlp"),
    "cnn_long": ("benchmarks.digits_cnn_long", "benchmarks.digits_space"),
}
"""Model to what `--trainable` and `--search-space` call it."""
MODELS = ("cnn", "mlp")
"""Those of a run that names none; another's figures have a file of their own."""
PAIRS = {"a": ("random", "asha"), "g": ("tpe", "asha"), "h": ("gp", "halving")}
"""Arm of this program to its searcher and scheduler."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}

Run = dict[str, Any]
"""model, trials, repeat, arm, wall_s, cpu_s, epochs, s_per_epoch, cpu_s_per_epoch, busy_before."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.reports:
        return measure_reports(asked.reports, asked.repeats)
    runs: list[Run] = []
    for repeat in range(asked.repeats):
        for model in asked.models:
            for trials in asked.trials:
                runs += one_round(model, trials, repeat, arms_of(asked, trials))
    medians = summary(runs)
    print(describe(medians), flush=True)
    name = "_".join(["overhead", *(model for model in asked.models if model not in MODELS)])
    _measure.write(name, {"arms": ARMS, "runs": runs, "medians": medians}, goals(runs), "overhead")
    return 0


def measure_reports(reports: int, repeats: int) -> int:
    """Milliseconds for which a report keeps a function waiting, in sweeps of one trial."""
    from sweeps.record.record import Record

    waits: list[dict[str, Any]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="overhead-") as base:
            words = ["--trainable", "benchmarks.reporting", "--num-trials", "1", "--max-epochs", str(reports)]
            words += ["--results-dir", base, "--name", "sweep", "--no-ray-dashboard"]
            busy, command = _measure.busy_cores(), [sys.executable, "-m", "sweeps.run", *words]
            _measure.run_together([command], Path(base), ONE_THREAD)
            (trial,) = Record.read(Path(base) / "sweep").trials
            found = sorted(epoch.score for epoch in list(trial.epochs.values())[1:])
        row = {"median_ms": _measure.median(found), "p90_ms": found[len(found) * 9 // 10]}
        waits.append({**row, "reports": len(found), "busy_before": round(busy, 2)})
        print(", ".join(f"{name} {value:.2f}" for name, value in waits[-1].items()), flush=True)
    goal = Goal("ms_of_a_report", _measure.median([each["median_ms"] for each in waits]), "<=", 2.0)
    _measure.write("reports", {"runs": waits}, [goal], "overhead")
    return 0


def one_round(model: str, trials: int, repeat: int, arms: Sequence[str]) -> list[Run]:
    """Every arm once. Ours comes first: its record says what the others train."""
    runs = []
    with tempfile.TemporaryDirectory(prefix="overhead-") as base:
        round_ = Round(model, trials, repeat, Path(base))
        for arm in ["a", *_measure.in_turn([arm for arm in arms if arm != "a"], repeat)]:
            runs.append(run := round_.run(arm))
            print(
                f"{model} {trials} trials, repeat {repeat + 1}, {ARMS[arm]}: {run['wall_s']:.1f} s, "
                f"{run['cpu_s']:.1f} s of CPU, {run['epochs']} epochs "
                f"({run['busy_before']:.1f} cores busy before)", flush=True,
            )  # fmt: skip
    return runs


class Round:
    """The same sweep for every arm; (a) runs first, its record says what the others train.

    Args:
        model: of NAMES.
        trials: of the sweep.
        repeat: its number, the seed.
        base: folder for all that the arms write.
        workers: trials at a time.
        accelerator: cpu or gpu, on which all arms compute in fp32.
    """

    def __init__(
        self,
        model: str,
        trials: int,
        repeat: int,
        base: Path,
        workers: int = WORKERS,
        accelerator: str = "cpu",
    ) -> None:
        self._base, self._trials, self._repeat = base, trials, repeat
        self._job = Job(
            model=model, trials=[], epochs=[], seed=repeat, max_epochs=MAX_EPOCHS, grace_epochs=GRACE_EPOCHS,
            reduction_factor=REDUCTION_FACTOR, workers=workers, accelerator=accelerator, folder=str(base),
        )  # fmt: skip

    def run(self, arm: str) -> Run:
        """Time an arm from the start of its processes to their end."""
        folder = self._base / arm
        folder.mkdir()
        job = _in_folder(self._job, folder)
        job.write()
        busy = _measure.busy_cores()
        wall_s, cpu_s = _measure.run_together(commands(arm, job, self._trials), folder, ONE_THREAD)
        told = _with_record(job, folder / "sweep") if arm in PAIRS else job
        if arm == "a":
            self._job = told
        epochs = sum(told.epochs) if arm in PAIRS else job.told()
        return {
            "model": job.model, "trials": self._trials, "repeat": self._repeat, "arm": arm,
            "wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 2), "epochs": epochs,
            "s_per_epoch": wall_s / epochs, "cpu_s_per_epoch": cpu_s / epochs, "busy_before": round(busy, 2),
        }  # fmt: skip


def commands(arm: str, job: Job, trials: int) -> list[list[str]]:
    """The processes of an arm."""
    python = [sys.executable, "-m"]
    if arm in PAIRS:
        trainable, space = NAMES[job.model]
        searcher, scheduler = PAIRS[arm]
        flags = {
            "trainable": trainable, "search-space": space, "searcher": searcher, "scheduler": scheduler,
            "num-trials": as_many_epochs(trials) if scheduler == "halving" else trials,
            "max-epochs": job.max_epochs, "grace-epochs": job.grace_epochs, "seed": job.seed,
            "reduction-factor": job.reduction_factor, "max-concurrent": job.workers, "cpus-per-trial": 1,
            "results-dir": job.folder, "name": "sweep", "precision": 32,
            **({"trials-per-gpu": job.workers} if job.accelerator == "gpu" else {"gpus-per-trial": 0}),
        }  # fmt: skip
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        return [[*python, "sweeps.run", *words, "--no-preflight", "--no-ray-dashboard"]]
    if arm in ("b", "c"):
        return [[*python, "benchmarks._tune", job.folder, "reuse" if arm == "c" else "new"]]
    workers = map(str, range(job.workers))
    if arm == "d":
        return [[*python, "benchmarks._optuna", job.folder, worker] for worker in workers]
    kind = "plain" if arm == "e" else "lightning"
    return [[*python, "benchmarks._floor", job.folder, worker, kind] for worker in workers]


def as_many_epochs(trials: int) -> int:
    """The number of trials with which halving takes the epochs that asha takes for `trials`."""
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.schedulers import asha, halving

    rungs = {"max_epochs": MAX_EPOCHS, "grace_epochs": GRACE_EPOCHS, "reduction_factor": REDUCTION_FACTOR}
    wanted = asha.Scheduler.expected_epochs(SweepConfig.from_settings(**rungs, num_trials=trials))
    return next(
        n
        for n in itertools.count(1)
        if halving.Scheduler.expected_epochs(SweepConfig.from_settings(**rungs, num_trials=n)) >= wanted
    )


def arms_of(asked: argparse.Namespace, trials: int) -> list[str]:
    """(b) takes minutes for many trials, and its time per trial is known from few."""
    return [arm for arm in asked.arms if arm != "b" or trials < 50 or asked.all_of_b]


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Medians over the repeats; the ratio is of the time per epoch, to the Lightning floor."""
    rows = []
    for model, trials, arm in dict.fromkeys((run["model"], run["trials"], run["arm"]) for run in runs):
        mine = _of(runs, model, trials, arm)
        rows.append(
            {
                "model": model,
                "trials": trials,
                "arm": arm,
                **{
                    key: _measure.median([run[key] for run in mine])
                    for key in ("wall_s", "cpu_s", "epochs", "s_per_epoch", "cpu_s_per_epoch")
                },
                "to_floor": _ratio(runs, model, trials, arm, "f"),
            }
        )
    return rows


def describe(medians: Sequence[dict[str, Any]]) -> str:
    titles = (
        "sweep",
        "wall s",
        "CPU s",
        "epochs",
        "s per epoch",
        "to the Lightning floor",
        "CPU s per epoch",
    )
    rows = [
        (
            f"{row['model']} {row['trials']}  {row['arm']} {ARMS[row['arm']]}",
            _measure.number(row["wall_s"], 1),
            _measure.number(row["cpu_s"], 1),
            _measure.number(row["epochs"], 0),
            _measure.number(row["s_per_epoch"], 3),
            _measure.number(row["to_floor"]),
            _measure.number(row["cpu_s_per_epoch"], 3),
        )
        for row in medians
    ]
    return _measure.table(titles, rows)


def goals(runs: Sequence[Run]) -> list[Goal]:
    return [
        Goal("overhead_24", _ratio(runs, "cnn", 24, "g", "f"), "<=", 1.3),
        Goal("overhead_96", _ratio(runs, "cnn", 96, "g", "f"), "<=", 1.15),
        Goal("overhead_mlp_96", _ratio(runs, "mlp", 96, "g", "f"), "<=", 1.5),
        Goal("ray_tune_24", _ratio(runs, "cnn", 24, "b", "g"), ">=", 5.0),
        Goal("ray_tune_reuse_24", _ratio(runs, "cnn", 24, "c", "g"), ">=", 1.4),
        Goal("ray_tune_reuse_96", _ratio(runs, "cnn", 96, "c", "g"), ">=", 1.5),
        Goal("default_to_tpe_asha_24", _ratio(runs, "cnn", 24, "h", "g"), "<=", 1.03),
        Goal("default_to_tpe_asha_96", _ratio(runs, "cnn", 96, "h", "g"), "<=", 1.03),
        Goal("default_to_tpe_asha_long_24", _ratio(runs, "cnn_long", 24, "h", "g"), "<=", 1.03),
        Goal("default_to_tpe_asha_long_96", _ratio(runs, "cnn_long", 96, "h", "g"), "<=", 1.03),
        Goal("own_ms_of_a_core_per_trial", own_ms_per_trial(runs), "<=", 60.0),
    ]


def own_ms_per_trial(runs: Sequence[Run], model: str = "cnn", few: int = 24, many: int = 96) -> float | None:
    """Milliseconds of a core of each further trial of (a) beyond those of the Lightning floor, which trains
    the same epochs: what a sweep costs once is in both sizes. Median over the repeats."""
    beyond = {
        trials: [
            ours["wall_s"] - floor["wall_s"]
            for ours, floor in zip(*(_of(runs, model, trials, arm) for arm in "af"), strict=False)
        ]
        for trials in (few, many)
    }
    costs = [after - before for before, after in zip(beyond[few], beyond[many], strict=False)]
    return _measure.median([1000 * WORKERS * cost / (many - few) for cost in costs])


def _ratio(runs: Sequence[Run], model: str, trials: int, above: str, below: str) -> float | None:
    """Median over the repeats of the ratio of the times per epoch."""
    ours, theirs = ([run["s_per_epoch"] for run in _of(runs, model, trials, arm)] for arm in (above, below))
    return _measure.median(_measure.ratios(ours, theirs)) if len(ours) == len(theirs) else None


def _of(runs: Sequence[Run], model: str, trials: int, arm: str) -> list[Run]:
    return [run for run in runs if (run["model"], run["trials"], run["arm"]) == (model, trials, arm)]


def _in_folder(job: Job, folder: Path) -> Job:
    return Job(**{**vars(job), "folder": str(folder)})


def _with_record(job: Job, sweep: Path) -> Job:
    from sweeps.record.record import Record

    trials = Record.read(sweep).trials
    params = [{**trial.fixed, **trial.params} for trial in trials]
    return Job(**{**vars(job), "trials": params, "epochs": [len(trial.epochs) for trial in trials]})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--trials", type=int, nargs="+", default=[24, 96])
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--reports", type=int, default=0, help="of a function: their time alone is measured")
    parser.add_argument(
        "--arms",
        nargs="+",
        choices=list(ARMS),
        default=list(ARMS),
        help="(a) always runs: it tells the others",
    )
    parser.add_argument(
        "--all-of-b", action="store_true", help="(b) also with 50 trials and more: minutes each"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
