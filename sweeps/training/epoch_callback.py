"""What happens between two epochs: the next one is seeded, the last one is reported."""

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
    """The metric that trials are judged by."""
    metrics: Mapping[str, float]
    """All that the model logged."""
    seconds: float
    """Wall time of the epoch, training and validation."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Where the time went, and what else it took: see `profile.Meter.end`."""
    notice: str = ""
    """What the user should know of it; mostly nothing."""


class Fit(Protocol):
    """What an epoch's end reads and notes of the run that it belongs to."""

    config: FitConfig
    meter: Meter
    first_epoch: int
    """Epochs of the checkpoint that it goes on from."""
    epochs: int
    """Epochs that have ended."""
    last_metrics: Mapping[str, float]

    def keep_if_best(self, score: float) -> None: ...


class EpochEnd(Checkpoint):
    """Hands each finished epoch to `on_epoch`.

    A Checkpoint, because Lightning runs those last: what the model logs in its own
    `on_train_epoch_end` is there, and validation is over (gradients are on again).
    """

    def __init__(self, fit: Fit, on_epoch: Callable[[Epoch], bool]) -> None:
        self._fit = fit
        self._on_epoch = on_epoch
        self._before: dict[str, Any] = {}
        self._growth = Growth()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        # A model that asks for `estimated_stepping_batches` has the first epoch's order drawn when its
        # optimizers are made; others have it drawn behind `on_fit_start`.
        self._seed(self._fit.first_epoch)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.train_dataloader is None:  # the order is not drawn yet
            self._seed(self._fit.first_epoch)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning steps these behind the checkpoint of an epoch, by metrics that are not in it.
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
        # What an epoch does not log Lightning shows as it was in the one before: the same tensor.
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
        """Give each epoch its own seed, so that a trial which goes on from a checkpoint shuffles,
        drops and augments as one that was never interrupted."""
        state = np.random.SeedSequence((self._fit.config.seed, epoch)).generate_state(1)
        seed_again(int(state[0]))
