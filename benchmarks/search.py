"""Which search finds more in the same epochs: `python -m benchmarks.search`

Two families of learning curves are replayed, so that a search of 1,500 epochs takes seconds: the table of
`benchmarks.curves`, 288 points of fashion_cnn as they were measured, and `benchmarks.lcbench`, predicted
curves of MLPs on tabular tasks. Constants of a search are chosen by the tasks of --set fit alone; --set check
is run once per decision (--decision TEXT), and appended to results/search_checks.md.

Every arm spends 160, 500 or 1,500 epochs. The regret of its choice: how many points of accuracy the point
that it would hand over is behind the best, when it is trained to the end. The regret of its weights: the same
of the weights that it hands over, as they were trained. Arms are compared on the same problem and seed.

Ours are the pairs of this program; rungs at 3, 9 and 27 epochs. Ray's own, as shipped: OptunaSearch with
ASHAScheduler, whose first rung is 1, and the same with that of ours; TuneBOHB with HyperBandForBOHB.
Optuna by itself: its TPE with three of its pruners, with the rungs of ours where they have rungs.
W&B's Bayes with Hyperband, by W&B's own engine, with the rungs of ours; `_wandb.py` says how to install it.
Syne Tune's ASHACQR with the rungs of ours, where it is installed; a search of 1,500 epochs takes a minute:
.venv/bin/python -m pip install --no-deps syne-tune xgboost dill
.venv/bin/python -m pip install "huggingface_hub<1"

The real searchers and schedulers run in Tune's loop with a clock of its own (`_clock.py`): the same seeds
give the same figures on any machine.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import _measure

if TYPE_CHECKING:
    from benchmarks._comparison import Run
    from benchmarks._problems import Epoch, Problem

FAMILIES = ["lcbench", "fashion_cnn"]
BUDGETS = [160, 500, 1_500]
SEEDS = {"fit": 5, "check": 30}
SLOTS = {"fit": [4], "check": [1, 4, 16]}
CHECKS = "search_checks.md"

Job = tuple[str, "Problem", int, int, list[int]]
"""Arm, problem, slots, seed and budgets."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    from benchmarks import _comparison, _wandb  # here, not above: --help answers at once

    runs = run_all(asked)
    rows = _comparison.summary(runs)
    print(_comparison.describe(rows), flush=True)
    content: dict[str, object] = {
        "set": asked.set,
        "summary": rows,
        "by_problem": _comparison.by_problem(runs),
    }
    goals = _comparison.goals(runs)
    if any(run.arm in _wandb.WANDBS for run in runs):
        content["wandb_engine"] = _wandb.version()
    name = asked.name or ("search" if asked.set == "fit" else "search_check")
    _measure.write(name, content, goals, program="search")
    _comparison.draw(rows, _measure.results() / f"{name}.png")
    if asked.decision:
        _comparison.append_check(_measure.results() / CHECKS, asked.decision, rows, goals)
    return 0


def run_all(asked: argparse.Namespace) -> list[Run]:
    """Every arm on every problem, several searches at a time; those that --kept holds are not run again."""
    import multiprocessing

    from benchmarks import _comparison

    jobs = _jobs(asked)
    runs = _comparison.kept(asked.kept, {_key(job) for job in jobs}, asked.budgets) if asked.kept else []
    there = {(each.arm, each.problem, each.slots, each.seed) for each in runs}
    order = {_key(job): place for place, job in enumerate(jobs)}
    jobs = [job for job in jobs if _key(job) not in there]
    began = time.monotonic()
    # Processes that are started anew: one that is forked inherits the locks of Ray's threads.
    with multiprocessing.get_context("spawn").Pool(asked.processes, _quiet) as pool:
        for done, found in enumerate(pool.imap_unordered(run, jobs), start=1):
            runs += found
            if asked.kept:
                _comparison.keep(asked.kept, found)
            if done % max(1, len(jobs) // 50) == 0 or done == len(jobs):
                left_min = (time.monotonic() - began) / 60 * (len(jobs) - done) / done
                print(f"{done:,} of {len(jobs):,} searches, {left_min:.0f} min left", flush=True)
    return sorted(runs, key=lambda each: (order[each.arm, each.problem, each.slots, each.seed], each.budget))


def _jobs(asked: argparse.Namespace) -> list[Job]:
    from benchmarks import _comparison, _problems, _searches, _wandb

    arms = asked.arms or _searches.compared()
    for arm in arms:
        if arm not in _searches.KNOWN:
            raise SystemExit(f"--arms {arm}: one of {', '.join(_searches.KNOWN)}")
        if arm in _wandb.WANDBS and not _wandb.is_installed():
            raise SystemExit(f"--arms {arm}: {_wandb.PYTHON} must name a Python that has it; see --help")
    problems = [p for family in asked.families for p in _problems.problems(family, f"to_{asked.set}")]
    repeats = asked.repeats or SEEDS[asked.set]
    of_arm = {arm: asked.rival_repeats or repeats if arm in _comparison.RIVALS else repeats for arm in arms}
    return [
        (arm, problem, slots, seed, asked.budgets)
        for slots in asked.slots or SLOTS[asked.set]
        for seed in range(repeats)
        for problem in problems
        for arm in arms
        if seed < of_arm[arm]
    ]


def _key(job: Job) -> tuple[str, str, int, int]:
    arm, problem, slots, seed, _ = job
    return arm, problem.name, slots, seed


def run(job: Job) -> list[Run]:
    """One arm on one problem, at each budget."""
    from benchmarks import _comparison

    arm, problem, slots, seed, _ = job
    return [_comparison.of_search(arm, problem, slots, seed, budget, found) for budget, found in _found(job)]


def _found(job: Job) -> Iterator[tuple[int, list[Epoch]]]:
    """The epochs of each budget: of searches of their own where the number of trials follows from the budget,
    else of one search."""
    from benchmarks import _asked, _searches

    arm, problem, slots, seed, budgets = job
    is_exact = arm in _searches.OURS and _searches.OURS[arm].is_exact
    for budget in budgets if is_exact else [max(budgets)]:
        found = _searches.search(_asked.Asked(arm, problem, _seed(problem, seed), slots, budget))
        for each in [budget] if is_exact else budgets:
            yield each, found[:each]


def _seed(problem: Problem, seed: int) -> int:
    """Another one for each problem: else all would begin with the same random points."""
    return seed + 1_000 * int(problem.name.split()[-1])


def _quiet() -> None:
    """What Ray reads when it is imported, and the libraries' chatter; a thread per process."""
    from sweeps.ray_start import ray_environment

    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    ray_environment.set_environment()
    warnings.simplefilter("ignore", FutureWarning)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in ("hpbandster", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--set", choices=list(SEEDS), default="fit", help="tasks of lcbench (default: fit)")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--arms", nargs="+", help="some of them, by name (default: those compared)")
    parser.add_argument("--slots", type=int, nargs="+", help="trials at a time (default: 4; check: 1 4 16)")
    parser.add_argument("--repeats", type=int, help="seeds per problem (default: 5; check: 30)")
    parser.add_argument("--rival-repeats", type=int, help="those of bohb and of other programs, if fewer")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, help="epochs")
    parser.add_argument(
        "--processes", type=int, default=len(os.sched_getaffinity(0)), help="searches at a time"
    )
    parser.add_argument("--name", help="of the files of results (default: search; check: search_check)")
    parser.add_argument("--kept", type=Path, help="file of searches that are done, for a run of many hours")
    parser.add_argument("--decision", help=f"what is decided by this run, for results/{CHECKS}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
