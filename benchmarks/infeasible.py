"""Do searches keep away from what does not fit in memory? `python -m benchmarks.infeasible`

Nothing is trained: half of each space does not fit, and a known function gives the scores of the rest. The
real searchers propose 60 trials, one at a time, and read the real record. Counted are the proposals that do
not fit, among the first 30 trials and among the 30 after them. Chance is random search, which does not learn.
"as failed": trials that do not fit are recorded as failed, as before they had a status of their own.

The spaces, and what fits:

- width: what is up to a width, whatever the rate; the wider the better;
- product: up to a product of width, depth and batch size; the larger the better, so that the search is drawn
  to what does not fit;
- inside: the same, but the best scores are well inside of what fits;
- choices: up to a product of depth, batch size and what a choice of kind takes; the larger the better.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks import _measure

if TYPE_CHECKING:
    from sweeps.record.record import Record

TRIALS, LEARNT = 60, 30
EPOCHS = 9
ARMS = ("random", "gp", "tpe", "bohb")
LEARNING = ("gp", "tpe", "bohb")
PROBLEMS = ("width", "product", "inside", "choices")
SEEDS = 4


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of all problems."""

    lr: float = 0.1
    width: int = 64
    depth: int = 4
    batch_size: int = 64
    kind: str = "plain"


@dataclass(frozen=True)
class Problem:
    """A space half of which does not fit."""

    name: str
    space: Mapping[str, Any]
    fits: Callable[[Mapping[str, Any]], bool]
    score: Callable[[Mapping[str, Any]], float]
    """At the end, larger is better."""


def problems() -> list[Problem]:
    """All of them."""
    from ray import tune

    lr = tune.loguniform(1e-4, 1.0)
    sizes = {
        "width": tune.lograndint(16, 1025),
        "depth": tune.randint(1, 13),
        "batch_size": tune.choice([32, 64, 128, 256]),
    }
    kinds = {"plain": 1.0, "wide": 2.0, "deep": 4.0}

    def off(params: Mapping[str, Any]) -> float:
        """How far the rate is from the best one, in decades."""
        return abs(math.log10(params["lr"]) + 2)

    def size(params: Mapping[str, Any]) -> float:
        return math.log(params["width"]) + math.log(params["depth"]) + math.log(params["batch_size"])

    def size_of_kind(params: Mapping[str, Any]) -> float:
        return kinds[params["kind"]] * int(params["depth"]) * int(params["batch_size"])

    middle = 10.6
    return [
        Problem(
            "width",
            {"lr": lr, "width": tune.randint(1, 101)},
            lambda params: params["width"] <= 50,
            lambda params: params["width"] / 100 - off(params) / 10,
        ),
        Problem(
            "product",
            {"lr": lr, **sizes},
            lambda params: size(params) <= middle,
            lambda params: size(params) / 10 - off(params) / 10,
        ),
        Problem(
            "inside",
            {"lr": lr, **sizes},
            lambda params: size(params) <= middle,
            lambda params: -abs(size(params) - 9) / 10 - off(params) / 10,
        ),
        Problem(
            "choices",
            {
                "lr": lr,
                "kind": tune.choice(list(kinds)),
                "depth": tune.randint(1, 13),
                "batch_size": tune.choice([32, 64, 128, 256]),
            },
            lambda params: size_of_kind(params) <= 1100,
            lambda params: math.log(size_of_kind(params)) / 10 - off(params) / 10,
        ),
    ]


@dataclass(frozen=True)
class Run:
    """One search."""

    arm: str
    problem: str
    seed: int
    first: float
    """Share of the first trials that do not fit."""
    later: float
    """Of those after them."""
    best: float
    """Score of the best trial."""
    seconds: float
    """That the searcher took for all proposals."""


def run(arm: str, problem: Problem, seed: int, trials: int, as_failed: bool) -> Run:
    """One search: trials are proposed, and end, one after the other."""
    from sweeps.config import plugins
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.record.record import Record
    from sweeps.space.flat import check

    module = plugins.find("searcher", arm)
    config = SweepConfig.from_settings(
        searcher=arm, seed=seed, num_trials=trials, max_epochs=EPOCHS, grace_epochs=3
    )
    space = check(problem.space, Params, {}, module.TAKES, arm)
    missed, scores, seconds = [], [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        record = Record.create(Path(folder), "s", "max", {"metric": "score", "fixed": {}})
        searcher = module.build(config, space, record)
        with record.together():  # nothing of this needs to survive
            for number in range(trials):
                began = time.perf_counter()
                params = searcher.suggest(str(number))["params"]
                seconds += time.perf_counter() - began
                missed.append(not problem.fits(params))
                if missed[-1]:
                    record.end(number, "failed" if as_failed else "infeasible", "out of memory")
                else:
                    scores.append(problem.score(params))
                    _train(record, number, scores[-1])
    name = f"{arm}, as failed" if as_failed else arm
    half = min(LEARNT, trials // 2)
    best = max(scores, default=-math.inf)
    return Run(name, problem.name, seed, fmean(missed[:half]), fmean(missed[half:]), best, seconds)


def _train(record: Record, number: int, score: float) -> None:
    for epoch in (1, 3, EPOCHS):
        record.report(number, epoch, score * (1 + math.log(epoch) / 10), {}, 1.0)
    record.end(number, "finished")


Job = tuple[str, str, int, int, bool]
"""Arm, problem, seed, trials, and whether trials that do not fit are recorded as failed."""


def run_job(job: Job) -> Run:
    """One search, in a process of its own."""
    arm, name, seed, trials, as_failed = job
    (problem,) = (each for each in problems() if each.name == name)
    return run(arm, problem, seed, trials, as_failed)


def run_all(asked: argparse.Namespace) -> list[Run]:
    """Every arm on every problem, several searches at a time."""
    arms = [(arm, False) for arm in ARMS if arm in asked.arms]
    arms += [(arm, True) for arm in LEARNING if arm in asked.arms]
    jobs: list[Job] = [
        (arm, problem, seed, asked.trials, as_failed)
        for problem in asked.problems
        for arm, as_failed in arms
        for seed in range(asked.repeats)
    ]
    runs, began = [], time.monotonic()
    # Processes that are started anew: one that is forked inherits the locks of threads.
    with multiprocessing.get_context("spawn").Pool(asked.processes, _quiet) as pool:
        for done, found in enumerate(pool.imap(run_job, jobs), start=1):
            runs.append(found)
            if done % max(1, len(jobs) // 10) == 0:
                left_min = (time.monotonic() - began) / 60 * (len(jobs) - done) / done
                print(f"{done} of {len(jobs)} searches, {left_min:.0f} min left", flush=True)
    return runs


def _quiet() -> None:
    """The libraries' chatter; a thread per process."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    warnings.simplefilter("ignore", FutureWarning)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runs = run_all(asked)
    print(describe(runs))
    _measure.write("infeasible", {"runs": [vars(each) for each in runs]}, goals(runs))
    return 0


def describe(runs: Sequence[Run]) -> str:
    """A row for each problem and arm, with the means over the seeds."""
    rows = []
    for problem, arm in dict.fromkeys((each.problem, each.arm) for each in runs):
        of = [each for each in runs if (each.problem, each.arm) == (problem, arm)]
        means = [100 * fmean(each.first for each in of), 100 * fmean(each.later for each in of)]
        cells = [f"{mean:.0f} %" for mean in means] + [f"{fmean(each.best for each in of):.3f}"]
        rows.append([problem, arm, *cells, f"{1000 * fmean(each.seconds for each in of) / TRIALS:.0f}"])
    titles = [
        "problem",
        "searcher",
        f"trials 1-{LEARNT}",
        f"trials {LEARNT + 1}-{TRIALS}",
        "best score",
        "ms per proposal",
    ]
    return _measure.table(titles, rows)


def goals(runs: Sequence[Run]) -> list[_measure.Goal]:
    """Of each searcher that learns: its proposals that do not fit, as a share of those by chance."""
    chance = _mean_later(runs, "random")
    found = []
    for arm in LEARNING:
        later = _mean_later(runs, arm)
        value = later / chance if later is not None and chance else None
        found.append(_measure.Goal(f"infeasible_{arm}_to_chance", value, "<=", 0.2))
    return found


def _mean_later(runs: Sequence[Run], arm: str) -> float | None:
    return fmean(found) if (found := [each.later for each in runs if each.arm == arm]) else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.infeasible",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=SEEDS, help="searches of each, with other seeds")
    parser.add_argument("--trials", type=int, default=TRIALS, help="trials of a search")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS, help="searchers")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS, help="spaces")
    parser.add_argument("--processes", type=int, default=2, help="searches at a time")
    return parser


if __name__ == "__main__":
    sys.exit(main())
