"""One search over replayed curves, by this program or by Ray Tune as shipped: what it trained, in order."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import math
import os
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray import tune
from ray.tune import Callback, RunConfig, Stopper, TuneConfig
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, HyperBandForBOHB, TrialScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.search.bohb import TuneBOHB
from ray.tune.search.optuna import OptunaSearch

from benchmarks import _synetune
from benchmarks._clock import Clock
from benchmarks._problems import Epoch, Problem

if TYPE_CHECKING:
    from sweeps.plan.plan import Plan
    from sweeps.record.record import Record

GRACE_EPOCHS, REDUCTION_FACTOR = 3, 3


@dataclass(frozen=True)
class Arm:
    """A pair of this program."""

    searcher: str
    scheduler: str
    grace_epochs: int = GRACE_EPOCHS
    is_exact: bool = False
    """Whether its forecast of epochs is exact: then it gets the number of trials that fills the budget, and
    ends by itself. Others get more trials and are cut off."""


OURS = {
    "random": Arm("random", "none"),
    "random+asha": Arm("random", "asha"),
    "random+halving": Arm("random", "halving", is_exact=True),
    "tpe": Arm("tpe", "none"),
    "tpe+asha": Arm("tpe", "asha"),
    "tpe+halving": Arm("tpe", "halving", is_exact=True),
    "gp+asha": Arm("gp", "asha"),
    "gp+halving": Arm("gp", "halving", is_exact=True),
    "bohb": Arm("bohb", "bohb"),
    "bohb, grace 1": Arm("bohb", "bohb", 1),
}
ROOM = 1.3
"""More trials are asked for than the budget is expected to hold, where the forecast is not exact."""


@dataclass(frozen=True)
class Asked:
    """What one search is given."""

    arm: str
    problem: Problem
    seed: int
    slots: int
    """Trials at a time."""
    budget: int
    """Epochs."""
    pace: float = 0.0
    """Seconds that a second of the real training takes here, where Tune runs it."""


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
    by_whom = _by_us if asked.arm in OURS else _by_syne_tune if asked.arm == _synetune.NAME else _by_ray
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
    from sweeps.plan import folder, resume

    plan = _plan(asked, base)
    with folder.opened(plan) as record:
        resume.begin_run(plan, record)
        found = (_through_engine if by_tune else _through_clock)(asked, plan, record)
        yield from itertools.islice(found, asked.budget)


def _plan(asked: Asked, base: Path) -> Plan:
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.plan import build as planning
    from sweeps.search.cohorts import expected_epochs

    arm, problem = OURS[asked.arm], asked.problem
    config = SweepConfig.of(
        trainable=problem.trainable, search_space=f"{problem.trainable}_space",
        params={**problem.params, "pace": asked.pace}, searcher=arm.searcher, scheduler=arm.scheduler,
        num_trials=100, max_epochs=problem.max_epochs, grace_epochs=arm.grace_epochs,
        reduction_factor=REDUCTION_FACTOR, seed=asked.seed, max_concurrent=asked.slots, gpus_per_trial=0,
        results_dir=str(base), name="sweep",
    )  # fmt: skip
    plan = planning.make_plan(config)
    trials = math.ceil(ROOM * asked.budget * 100 / plan.expected_epochs)
    if arm.is_exact:
        trials = 1
        while expected_epochs(plan.scheduler, config.changed(num_trials=trials + 1)) <= asked.budget:
            trials += 1
    return planning.make_plan(config.changed(num_trials=trials))


def _through_clock(asked: Asked, plan: Plan, record: Record) -> Iterator[Epoch]:
    searcher = plan.searcher.build(plan.config, plan.space, record)
    searcher.slots, searcher.waits = asked.slots, plan.waits(record)

    def report(trial: Trial, result: dict[str, Any]) -> None:
        metrics = {"val_acc": result["score"]}
        record.report(trial.config["number"], result["epoch"], result["score"], metrics, 0.0)

    def end(trial: Trial, result: dict[str, Any]) -> None:
        is_finished = result["epoch"] == asked.problem.max_epochs
        record.end(trial.config["number"], "finished" if is_finished else "pruned")

    scheduler = plan.scheduler.build(plan.config, record)
    return Clock(searcher, scheduler, asked.problem, asked.slots, report, end).run()


def _through_engine(asked: Asked, plan: Plan, record: Record) -> Iterator[Epoch]:
    from sweeps.cluster import session
    from sweeps.cluster.nodes import PC
    from sweeps.execution import tuner as execution_tuner
    from sweeps.execution.driver import Driver

    driver = Driver.of(plan, record, session.Cluster((PC(asked.slots, 0),), None))
    execution_tuner.fit(driver)
    end = driver.end
    if end.outcome != "finished":
        raise RuntimeError(f"{asked}: {end.outcome} {end.error}")
    found = [
        (row.time, Epoch(f"{trial.number:05d}", asked.problem.curve(trial.params).point, epoch, row.score))
        for trial in record.trials
        for epoch, row in trial.epochs.items()
    ]
    return (epoch for _, epoch in sorted(found, key=lambda pair: pair[0]))


def _optuna(asked: Asked, grace_epochs: int) -> tuple[Searcher, TrialScheduler]:
    return OptunaSearch(seed=asked.seed), ASHAScheduler(
        max_t=asked.problem.max_epochs, grace_period=grace_epochs, reduction_factor=REDUCTION_FACTOR
    )


def _bohb(asked: Asked) -> tuple[Searcher, TrialScheduler]:
    """As in Ray's example; its first rung follows from max_t."""
    return TuneBOHB(seed=asked.seed), HyperBandForBOHB(
        max_t=asked.problem.max_epochs, reduction_factor=REDUCTION_FACTOR, stop_last_trials=False
    )


RAYS = {
    "Ray OptunaSearch + ASHA, grace 1": lambda asked: _optuna(asked, 1),
    "Ray OptunaSearch + ASHA, grace 3": lambda asked: _optuna(asked, GRACE_EPOCHS),
    "Ray TuneBOHB": _bohb,
}
"""Arm to searcher and scheduler, as they come; 1 is ASHA's own grace period."""


def compared() -> list[str]:
    """Arms that are run when none is named."""
    return [*COMPARED, *([_synetune.NAME] if _synetune.is_installed() else [])]


COMPARED = (
    "random", "random+halving", "tpe+asha", "tpe+halving", "gp+asha", "gp+halving", "bohb", *RAYS,
)  # fmt: skip
"""Those whose packages are always there."""


class Replayed(tune.Trainable):
    """Replays a curve, an epoch a step; `asked` is shared by all trials."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        self._asked: Asked = shared["asked"]
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._curve, self._epoch = self._asked.problem.curve(new_config), 0
        return True

    def step(self) -> dict[str, Any]:
        time.sleep(self._asked.pace * self._curve.seconds[self._epoch])
        self._epoch += 1
        is_last = self._epoch == len(self._curve.scores)
        return {"val_acc": self._curve.scores[self._epoch - 1], "done": is_last}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "epoch").write_text(str(self._epoch))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self._epoch = int((Path(checkpoint) / "epoch").read_text())


class Listener(Callback):
    """Hears of every epoch."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.epochs: list[Epoch] = []

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        point = self._problem.curve(trial.config).point
        self.epochs.append(Epoch(trial.trial_id, point, result["training_iteration"], result["val_acc"]))


class Budget(Stopper):
    """Ends a search that has trained its epochs."""

    def __init__(self, listener: Listener, epochs: int) -> None:
        self._listener, self._epochs = listener, epochs

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return len(self._listener.epochs) >= self._epochs


def _by_syne_tune(asked: Asked, base: Path, by_tune: bool) -> Iterator[Epoch]:
    """Syne Tune's, with our rungs. Ray Tune can't run it."""
    found = _synetune.search(asked.problem, asked.seed, asked.slots, GRACE_EPOCHS, REDUCTION_FACTOR)
    return itertools.islice(found, asked.budget)


def _by_ray(asked: Asked, base: Path, by_tune: bool) -> Iterator[Epoch]:
    """Ray's own pair."""
    random.seed(asked.seed)
    np.random.seed(asked.seed)  # hpbandster draws from the global generator
    searcher, scheduler = RAYS[asked.arm](asked)
    if by_tune:
        yield from _through_tuner(asked, base, searcher, scheduler)
        return
    limited = ConcurrencyLimiter(searcher, max_concurrent=asked.slots)
    limited.set_search_properties("val_acc", "max", dict(asked.problem.space))
    scheduler.set_search_properties("val_acc", "max")
    clock = Clock(limited, scheduler, asked.problem, asked.slots)
    yield from itertools.islice(clock.run(), asked.budget)


def _through_tuner(
    asked: Asked, base: Path, searcher: Searcher, scheduler: TrialScheduler
) -> Iterator[Epoch]:
    listener = Listener(asked.problem)
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(Replayed, asked=asked), {"cpu": 1}),
        param_space=dict(asked.problem.space),
        tune_config=TuneConfig(
            metric="val_acc", mode="max", search_alg=searcher, scheduler=scheduler, num_samples=-1,
            max_concurrent_trials=asked.slots, reuse_actors=True,
        ),
        run_config=RunConfig(
            name="search", storage_path=str(base), verbose=0, callbacks=[listener],
            stop=Budget(listener, asked.budget),
        ),
    )  # fmt: skip
    grid = tuner.fit()
    if grid.errors:
        raise RuntimeError(f"{asked}: {grid.errors[0]}")
    return iter(listener.epochs[: asked.budget])
