"""Which search finds the better front in the same epochs: `python -m benchmarks.objectives`

The learning curves of `benchmarks.search` are replayed with a second objective that is the same in all
epochs of a trial: the size of the MLP (logarithm of its weights) on the tasks of lcbench, the seconds of an
epoch of fashion_cnn. Every arm spends 160, 500 or 1,500 epochs. Its front is that of the weights that it
hands over, as they were trained: the best accuracy of each trial so far, and the second objective.

Hypervolume, in percent: the share of a square that the front dominates. One side is the accuracy, from the
best known one to 20 points below it; the other the second objective, from its least to its largest value in
the space. Arms are compared on the same problem and seed.

Ours are pairs of this program. Optuna's NSGAIISampler and TPESampler, as shipped, train every trial to the
end: Optuna prunes no study with several objectives. The default is chosen by the tasks of --set fit; those of
--set check tell how it does on others.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import io
import itertools
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import _measure
from benchmarks._weighed import SECOND, Weighed, hypervolume

if TYPE_CHECKING:
    from benchmarks._problems import Curve, Epoch
    from benchmarks._regret import Interval

BUDGETS = (160, 500, 1_500)
SEEDS = {"fit": 2, "check": 10}
SLOTS = 4
PAIRS = ("random+none", "random+halving", "random+asha", "tpe+none", "tpe+halving", "tpe+asha",
         "nsga2+none", "nsga2+halving", "nsga2+asha")  # fmt: skip
OPTUNAS = {"Optuna NSGA-II": "NSGAIISampler", "Optuna TPE": "TPESampler"}
RANDOM, RIVAL, DEFAULT = "random+none", "Optuna NSGA-II", "tpe+halving"


class Run(NamedTuple):
    """The front of an arm at a budget, in percent."""

    arm: str
    problem: str
    seed: int
    budget: int
    percent: float


def run(job: tuple[str, str, Any, int, Sequence[int]]) -> list[Run]:
    """One arm on one problem, at each budget."""
    _, arm, problem, seed, budgets = job
    weighed = Weighed(problem)
    own_seed = seed + 1_000 * int(problem.name.split()[-1])
    runs = []
    for budget in budgets if arm.endswith("+halving") else [max(budgets)]:
        found = list(itertools.islice(_epochs(arm, weighed, own_seed, budget), budget))
        for each in [budget] if arm.endswith("+halving") else budgets:
            runs.append(Run(arm, problem.name, seed, each, 100 * _of(weighed, found[:each])))
    return runs


def _of(problem: Weighed, found: Sequence[Epoch]) -> float:
    best: dict[str, tuple[float, Epoch]] = {}
    for epoch in found:
        if math.isfinite(epoch.score) and epoch.score > best.get(epoch.trial, (-math.inf, epoch))[0]:
            best[epoch.trial] = epoch.score, epoch
    return hypervolume(
        [
            problem.corner(score, problem.curve(dict(epoch.point)).others[SECOND])
            for score, epoch in best.values()
        ]
    )


def _epochs(arm: str, problem: Weighed, seed: int, budget: int) -> Iterator[Epoch]:
    if arm in OPTUNAS:
        yield from _by_optuna(OPTUNAS[arm], problem, seed)
        return
    with (
        tempfile.TemporaryDirectory(prefix="objectives-", dir=_fastest()) as base,
        contextlib.redirect_stderr(io.StringIO()),  # a search that is cut off tells how to resume it
    ):
        yield from _by_us(arm, problem, seed, budget, Path(base))


def _fastest() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _by_us(arm: str, problem: Any, seed: int, budget: int, base: Path) -> Iterator[Epoch]:
    """A pair of this program, with as many trials as the budget holds; those whose number of epochs is not
    known before get more, and are cut off."""
    from benchmarks import _searches
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.plan import build as planning
    from sweeps.plan import folder, run_start

    searcher, scheduler = arm.split("+")
    config = SweepConfig.from_settings(
        trainable=problem.trainable, search_space=f"{problem.trainable}_space", params=dict(problem.params),
        metric=["val_acc:max", f"{SECOND}:min"], searcher=searcher, scheduler=scheduler, num_trials=100,
        max_epochs=problem.max_epochs, seed=seed, max_concurrent=SLOTS, gpus_per_trial=0,
        results_dir=str(base), name="sweep", baseline=False,
    )  # fmt: skip
    plan = planning.make_plan(config)
    trials = math.ceil(_searches.ROOM * budget * 100 / plan.scheduler.expected_epochs(plan.config))
    if scheduler == "halving":
        trials = 1
        while plan.scheduler.expected_epochs(config.changed(num_trials=trials + 1)) <= budget:
            trials += 1
    plan = planning.make_plan(config.changed(num_trials=trials))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        yield from _searches.through_clock(problem, SLOTS, plan, record)


def _by_optuna(sampler: str, problem: Any, seed: int) -> Iterator[Epoch]:
    """A sampler of Optuna's, so many trials at a time, each trained to the end."""
    import optuna

    from benchmarks._problems import Epoch
    from sweeps.searchers import random
    from sweeps.space import flat
    from sweeps.space.point import InvalidPoint

    module = __import__(problem.trainable, fromlist=["Params"])
    space = flat.check(
        problem.space, module.Params, dict(problem.params), random.Searcher.TAKES, "random", "net"
    )
    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=getattr(optuna.samplers, sampler)(seed=seed)
    )
    running: list[tuple[float, int, Any, int]] = []
    curves: dict[int, Curve] = {}

    def ask(now: float) -> None:
        trial = study.ask()
        try:
            curves[trial.number] = problem.curve({**problem.params, **space.suggest(trial).params})
        except InvalidPoint:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            ask(now)
            return
        heapq.heappush(running, (now + curves[trial.number].seconds[0], trial.number, trial, 1))

    for _ in range(SLOTS):
        ask(0.0)
    while True:
        now, number, trial, epoch = heapq.heappop(running)
        curve = curves[number]
        yield Epoch(str(number), curve.point, epoch, curve.scores[epoch - 1])
        if epoch < len(curve.scores):
            heapq.heappush(running, (now + curve.seconds[epoch], number, trial, epoch + 1))
            continue
        finite = [score for score in curve.scores if math.isfinite(score)]
        study.tell(trial, (max(finite, default=0.0), curve.others[SECOND]))
        ask(now)


def summary(runs: Sequence[Run]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Budget to arm to mean hypervolume, and to what it is ahead of random search and of Optuna's NSGA-II on
    the same problem and seed, with their intervals."""
    from benchmarks import _regret

    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for budget in sorted({each.budget for each in runs}):
        of_arm: dict[str, dict[tuple[str, int], float]] = {}
        for each in runs:
            if each.budget == budget:
                of_arm.setdefault(each.arm, {})[each.problem, each.seed] = each.percent
        rows = {}
        for arm, values in of_arm.items():
            rows[arm] = {"percent": list(_regret.mean(list(values.values())))}
            for name, other in (("ahead_of_random", RANDOM), ("ahead_of_optuna", RIVAL)):
                both = [key for key in values if key in of_arm.get(other, {})]
                if both and arm != other:
                    rows[arm][name] = list(_ahead(values, of_arm[other], both))
        found[str(budget)] = rows
    return found


def _ahead(own: Mapping[Any, float], other: Mapping[Any, float], both: Sequence[Any]) -> Interval:
    from benchmarks import _regret

    return _regret.mean([own[key] - other[key] for key in both])


def describe(rows: Mapping[str, Any]) -> str:
    """A table for each budget."""
    lines = []
    for budget, arms in rows.items():
        lines.append(f"\n{budget} epochs: hypervolume, %; ahead of random search; of Optuna's NSGA-II")
        for arm, row in sorted(arms.items(), key=lambda each: -each[1]["percent"][0]):
            cells = [row.get(name) for name in ("percent", "ahead_of_random", "ahead_of_optuna")]
            shown = ["-" if c is None else f"{c[0]:.1f} ({c[1]:.1f} to {c[2]:.1f})" for c in cells]
            lines.append(f"  {arm:<16} {shown[0]:<22} {shown[1]:<24} {shown[2]}")
    return "\n".join(lines)


def goals(rows: Mapping[str, Any], default: str = DEFAULT) -> list[_measure.Goal]:
    """The default is ahead of random search beyond chance, at every budget."""
    return [
        _measure.Goal(f"front_{budget}_ahead_of_random", row["ahead_of_random"][1], ">=", 0.0)
        for budget, arms in rows.items()
        if "ahead_of_random" in (row := arms.get(default, {}))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    import multiprocessing

    from benchmarks import _problems
    from benchmarks._problems import FAMILIES

    problems = [each for family in FAMILIES for each in _problems.problems(family, f"to_{asked.set}")]
    problems = problems[:: asked.every]
    repeats = asked.repeats or SEEDS[asked.set]
    jobs = [
        (asked.set, arm, problem, seed, asked.budgets)
        for seed in range(repeats)
        for problem in problems
        for arm in asked.arms
    ]
    runs: list[Run] = []
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(asked.processes, _quiet) as pool:
        for done, found in enumerate(pool.imap_unordered(run, jobs), start=1):
            runs += found
            if done % max(1, len(jobs) // 20) == 0 or done == len(jobs):
                left_min = (time.monotonic() - began) / 60 * (len(jobs) - done) / done
                print(f"{done:,} of {len(jobs):,} searches, {left_min:.0f} min left", flush=True)
    rows = summary(runs)
    print(describe(rows), flush=True)
    name = "objectives" if asked.set == "fit" else "objectives_check"
    content = {"set": asked.set, "problems": len(problems), "seeds": repeats, "summary": rows}
    _measure.write(name, content, goals(rows), program="objectives")
    return 0


def _quiet() -> None:
    from benchmarks import search

    search._quiet()
    warnings.simplefilter("ignore")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.objectives",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arms = [*PAIRS, *OPTUNAS]
    parser.add_argument("--set", choices=list(SEEDS), default="fit", help="tasks of lcbench (default: fit)")
    parser.add_argument("--arms", nargs="+", choices=arms, default=arms)
    parser.add_argument("--repeats", type=int, help="seeds per problem (default: 2; check: 10)")
    parser.add_argument("--every", type=int, default=1, help="take each so many-th problem (default: 1)")
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS), help="epochs")
    parser.add_argument(
        "--processes", type=int, default=len(os.sched_getaffinity(0)), help="searches at a time"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
