"""One search over replayed curves by Ray Tune as shipped."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune import Callback, RunConfig, Stopper, TuneConfig
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, HyperBandForBOHB, TrialScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.search.bohb import TuneBOHB
from ray.tune.search.optuna import OptunaSearch

from benchmarks._asked import GRACE_EPOCHS, REDUCTION_FACTOR, Asked
from benchmarks._clock import Clock
from benchmarks._problems import Epoch, Problem


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


def search(asked: Asked, base: Path, by_tune: bool) -> Iterator[Epoch]:
    """Run one search; its epochs as they come in, up to the budget.

    Args:
        asked: which one; its arm is of RAYS.
        base: a folder for Tune.
        by_tune: in the Ray that is connected, with the trials in processes; else by the clock.
    """
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
