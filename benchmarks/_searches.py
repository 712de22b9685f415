"""One search over replayed curves, by this program or by Ray Tune as shipped: what it trained, in order."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import logging
import math
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.tune.experiment import Trial

from benchmarks import _optuna_search, _raytune, _synetune, _wandb
from benchmarks._ask_and_tell import Search, replay
from benchmarks._asked import GRACE_EPOCHS, REDUCTION_FACTOR, Asked
from benchmarks._clock import Clock
from benchmarks._problems import Epoch, Problem
from sweeps.space.optuna_space import Encoding
from sweeps.space.point import Point, Space
from sweeps.training.report import REPORT, Report

if TYPE_CHECKING:
    from sweeps.plan.plan import Plan
    from sweeps.record.record import Record


@dataclass(frozen=True)
class Prior:
    """What the user believes: the best, or the worst, of so many random points, by its score at the end."""

    points: int
    of: Callable[..., Point]
    """`max` or `min`."""
    moved: float = 0.0
    """Standard deviation by which each of its values was moved, as a share of its range on its scale."""


@dataclass(frozen=True)
class Arm:
    """A pair of this program."""

    searcher: str
    scheduler: str
    grace_epochs: int = GRACE_EPOCHS
    is_exact: bool = False
    """Whether its forecast of epochs is exact: then it gets the number of trials that fills the budget, and
    ends by itself. Others get more trials and are cut off."""
    baseline: bool = False
    """Whether the defaults are its first trial."""
    prior: Prior | None = None


OURS = {
    "random": Arm("random", "none"),
    "random+asha": Arm("random", "asha"),
    "random+halving": Arm("random", "halving", is_exact=True),
    "tpe": Arm("tpe", "none"),
    "tpe+asha": Arm("tpe", "asha"),
    "tpe+halving": Arm("tpe", "halving", is_exact=True),
    "gp+asha": Arm("gp", "asha"),
    "gp+halving": Arm("gp", "halving", is_exact=True),
    "gp+halving, defaults first": Arm("gp", "halving", is_exact=True, baseline=True),
    "gp+halving, good prior": Arm("gp", "halving", is_exact=True, prior=Prior(25, max)),
    "gp+halving, near prior": Arm("gp", "halving", is_exact=True, prior=Prior(500, max, 0.1)),
    "gp+halving, misleading prior": Arm("gp", "halving", is_exact=True, prior=Prior(25, min)),
    "bohb": Arm("bohb", "bohb"),
    "bohb, grace 1": Arm("bohb", "bohb", 1),
}
ROOM = 1.3
"""More trials are asked for than the budget is expected to hold, where the forecast is not exact."""


@contextlib.contextmanager
def connected(slots: int) -> Iterator[None]:
    """A Ray of so many CPUs, however many there are: replaying takes next to none."""
    ray.init(
        "local", num_cpus=slots, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        yield
    finally:
        ray.shutdown()


def search(asked: Asked, by_tune: bool = False) -> list[Epoch]:
    """Run one search; its epochs as they came in, up to the budget.

    Args:
        asked: which one.
        by_tune: in the Ray that is connected, with the trials in processes; else by the clock.
    """
    by_whom = _by_us if asked.arm in OURS else _raytune.search if asked.arm in _raytune.RAYS else _by_another
    with (
        tempfile.TemporaryDirectory(prefix="search-", dir=_fastest()) as base,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        return list(by_whom(asked, Path(base), by_tune))


def _fastest() -> str | None:
    """Memory, where there is a disk of it: a record is synced again and again."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _by_us(asked: Asked, base: Path, by_tune: bool) -> Iterator[Epoch]:
    """This program, from the plan to the record."""
    from sweeps.plan import folder, run_start

    plan = _plan(asked, base)
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        found = (_through_engine if by_tune else _through_clock)(asked, plan, record)
        yield from itertools.islice(found, asked.budget)


def _plan(asked: Asked, base: Path) -> Plan:
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.plan import build as planning

    arm, problem = OURS[asked.arm], asked.problem
    config = SweepConfig.from_settings(
        trainable=problem.trainable, search_space=f"{problem.trainable}_space",
        params={**problem.params, "pace": asked.pace}, searcher=arm.searcher, scheduler=arm.scheduler,
        num_trials=100, max_epochs=problem.max_epochs, grace_epochs=arm.grace_epochs,
        reduction_factor=REDUCTION_FACTOR, seed=asked.seed, max_concurrent=asked.slots, gpus_per_trial=0,
        results_dir=str(base), name="sweep", baseline=arm.baseline,
    )  # fmt: skip
    plan = planning.make_plan(config)
    if arm.prior is not None:
        config = config.changed(prior=_believed(arm.prior, asked, plan.space))
    trials = math.ceil(ROOM * asked.budget * 100 / plan.scheduler.expected_epochs(plan.config))
    if arm.is_exact:
        trials = 1
        while plan.scheduler.expected_epochs(config.changed(num_trials=trials + 1)) <= asked.budget:
            trials += 1
    return planning.make_plan(config.changed(num_trials=trials))


def _believed(prior: Prior, asked: Asked, space: Space) -> dict[str, Any]:
    """The values of a prior, by hyperparameter."""
    known = [space.draw((asked.seed, number, 25)) for number in range(prior.points)]
    chosen = prior.of(known, key=lambda point: asked.problem.curve(point.params).scores[-1])
    generator, encoding = np.random.default_rng(asked.seed), Encoding.from_space(space)
    row = encoding.coordinates(chosen)
    row = np.clip(row + prior.moved * generator.standard_normal(len(row)), 0, 1)
    return dict(encoding.point(row, generator).params)


def _through_clock(asked: Asked, plan: Plan, record: Record) -> Iterator[Epoch]:
    return through_clock(asked.problem, asked.slots, plan, record)


def through_clock(problem: Problem, slots: int, plan: Plan, record: Record) -> Iterator[Epoch]:
    """The epochs of this program's searcher and scheduler, by the clock."""
    searcher = plan.searcher.build(plan.config, plan.space, record)
    searcher.slots, searcher.waits = slots, functools.partial(plan.waits, record)

    def report(trial: Trial, result: dict[str, Any]) -> None:
        found: Report = result[REPORT]
        metrics = {"val_acc": found.score, **found.metrics}
        record.report(trial.config["number"], found.epoch, found.score, metrics, 0.0)

    def end(trial: Trial, result: dict[str, Any]) -> None:
        is_finished = result[REPORT].epoch == problem.max_epochs
        record.end(trial.config["number"], "finished" if is_finished else "pruned")

    scheduler = plan.scheduler.build(plan.config, record)
    return Clock(searcher, scheduler, problem, slots, report, end).run()


def _through_engine(asked: Asked, plan: Plan, record: Record) -> Iterator[Epoch]:
    from sweeps.execution.driver import tuner as execution_tuner
    from sweeps.execution.run_context import RunContext, RunEnd
    from sweeps.ray_cluster.cluster import Cluster
    from sweeps.ray_cluster.nodes import Node

    this_pc = Node("this PC", "", "", {"CPU": asked.slots})
    context = RunContext.from_plan(plan, record, Cluster([this_pc]), RunEnd())
    execution_tuner.fit(context)
    end = context.end
    if end.outcome != "finished":
        raise RuntimeError(f"{asked}: {end.outcome} {end.error}")
    found = [
        (row.time, Epoch(f"{trial.number:05d}", asked.problem.curve(trial.params).point, epoch, row.score))
        for trial in record.trials
        for epoch, row in trial.epochs.items()
    ]
    return (epoch for _, epoch in sorted(found, key=lambda pair: pair[0]))


def compared() -> list[str]:
    """Arms that are run when none is named."""
    apart = [*([_synetune.NAME] if _synetune.is_installed() else [])]
    return [*COMPARED, *apart, *(_wandb.WANDBS if _wandb.is_installed() else [])]


COMPARED = (
    "random", "random+halving", "tpe+asha", "tpe+halving", "gp+asha", "gp+halving", "bohb", *_raytune.RAYS,
    *_optuna_search.OPTUNAS,
)  # fmt: skip
"""Those whose packages are always there."""
KNOWN = (*OURS, *_raytune.RAYS, *_optuna_search.OPTUNAS, _synetune.NAME, *_wandb.WANDBS)


def _by_another(asked: Asked, base: Path, by_tune: bool) -> Iterator[Epoch]:
    """A search that is asked and told, with our rungs. Ray Tune can't run it."""
    arm, problem, seed = asked.arm, asked.problem, asked.seed
    search: Search
    random.seed(seed)
    np.random.seed(seed)  # Syne Tune draws from the global generators
    if arm in _optuna_search.OPTUNAS:
        search = _optuna_search.Search(arm, problem, seed)
    elif arm in _wandb.WANDBS:
        search = _wandb.Search(arm, problem, seed)
    else:
        search = _synetune.Search(problem, seed, GRACE_EPOCHS, REDUCTION_FACTOR)
    return itertools.islice(replay(problem, asked.slots, search), asked.budget)
