"""Between two epochs: seed the next one, report the last one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import Checkpoint

from sweeps.common.errors import MetricNotLogged
from sweeps.training.config import FitConfig
from sweeps.training.distributed import strategy
from sweeps.training.profiling.memory import Growth
from sweeps.training.profiling.step_profiler import Meter
from sweeps.training.torch_state import seed_again


@dataclass(frozen=True)
class Epoch:
    """One trained and validated epoch."""

    epoch: int
    """1-based."""
    score: float
    """The metric that trials are compared by."""
    metrics: Mapping[str, float]
    """All metrics that the model logged."""
    seconds: float
    """Wall time of the epoch, training and validation."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Some of `time_breakdown.COSTS`."""
    notice: str = ""
    """A warning for the user; mostly empty."""


class Fit(Protocol):
    """The part of `fit_loop.Fit` that `EpochEnd` uses."""

    config: FitConfig
    meter: Meter
    first_epoch: int
    epochs: int
    last_metrics: Mapping[str, float]

    def keep_if_best(self, score: float) -> None: ...


class EpochEnd(Checkpoint):
    """Calls `on_epoch` with each finished epoch.

    A Checkpoint, because Lightning runs those last: the model's own `on_train_epoch_end` has logged its
    metrics, and validation has ended (gradients are on again).
    """

    def __init__(self, fit: Fit, on_epoch: Callable[[Epoch], bool]) -> None:
        self._fit = fit
        self._on_epoch = on_epoch
        self._before: dict[str, Any] = {}
        self._growth = Growth()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        # A model that reads `estimated_stepping_batches` draws the first epoch's order when its optimizers
        # are made; others draw it after `on_fit_start`.
        self._seed(self._fit.first_epoch)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.train_dataloader is None:  # the order is not drawn yet
            self._seed(self._fit.first_epoch)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning steps these after an epoch's checkpoint, by metrics that the checkpoint lacks.
        epoch, metrics = self._fit.first_epoch, self._fit.last_metrics
        for config in trainer.lr_scheduler_configs if epoch else []:
            is_due = config.reduce_on_plateau and config.interval == "epoch" and epoch % config.frequency == 0
            if is_due and config.monitor is not None and config.monitor in metrics:
                pl_module.lr_scheduler_step(config.scheduler, metrics[config.monitor])

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch != self._fit.first_epoch:
            self._seed(trainer.current_epoch)
        self._before = dict(trainer.callback_metrics)
        self._fit.meter.begin()

    def on_train_batch_end(self, *_: Any) -> None:
        self._fit.meter.look()

    def on_validation_batch_end(self, *_: Any) -> None:
        self._fit.meter.look()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # For a metric that this epoch did not log, Lightning holds the tensor of the epoch before.
        known = trainer.callback_metrics.items()
        metrics = {name: float(value) for name, value in known if value is not self._before.get(name)}
        name = self._fit.config.objective.metric
        if name not in metrics:
            logged = ", ".join(sorted(metrics)) or "nothing"
            near = difflib.get_close_matches(name, metrics, n=1)
            hint = f". Did you mean '{near[0]}'?" if near else ""
            raise MetricNotLogged(
                f"metric '{name}' was not logged in epoch {trainer.current_epoch + 1}; logged: {logged}{hint}"
            )
        metrics = strategy.mean_over_workers(trainer, metrics)
        self._fit.last_metrics, self._fit.epochs = metrics, trainer.current_epoch + 1
        self._fit.keep_if_best(metrics[name])
        seconds, costs = self._fit.meter.end()
        epoch = Epoch(
            trainer.current_epoch + 1, metrics[name], metrics, seconds, costs, self._growth.note(costs)
        )
        if not self._on_epoch(epoch):
            trainer.should_stop = True

    def _seed(self, epoch: int) -> None:
        """Seed each epoch by itself, so that a resumed trial repeats shuffling, dropout and augmentation."""
        state = np.random.SeedSequence((self._fit.config.seed, epoch)).generate_state(1)
        seed_again(int(state[0]))
