"""Between two epochs: seed the next one, report the last one. Inside one: leave it where that is asked.

A run is left between two optimizer steps. Lightning's checkpoint holds the number of batches, and the place
of each loader that has `state_dict` (torchdata's StatefulDataLoader, the loader of prepared data). Other
loaders would begin the epoch again, so that a run with one of them is left at the end of an epoch only.

Means that Lightning takes over the batches of a training epoch (`self.log(..., on_epoch=True)` in
`training_step`) are those of the batches after the position; validation is always whole.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.utilities import CombinedLoader
from lightning.pytorch.utilities.model_helpers import is_overridden

from sweeps.common.errors import CannotTrain, MetricNotLogged
from sweeps.common.formatting import shortest
from sweeps.training import lightning_internals
from sweeps.training.checkpoints.weights import BestWeights
from sweeps.training.config import FitConfig
from sweeps.training.data.datamodule import Loader
from sweeps.training.distributed import strategy
from sweeps.training.report import CheckpointUnusable, Notices, Position, Progress, Report
from sweeps.training.step_profiler import Meter
from sweeps.training.time_breakdown import Growth
from sweeps.training.torch_state import random_states, restore_random_states, seed_stream
from sweeps.training.trainer import Trainer, length_of_schedules
from sweeps.training.trial_logger import TrialLogger

NO_BATCH = "the {} data has no batch: no rows, or with drop_last=True too few for one"
ASK_EVERY_STEPS, ASK_EVERY_S = 10, 2.0
"""Between two questions of several workers to each other whether to leave the epoch."""
MOST_BATCHES = 10_000
"""Of data that does not say how long it is: behind them it is taken to have no end."""


class LeftInside(BaseException):
    """Unwinds Lightning's loops at a position."""


class EpochEnd(Checkpoint):
    """Reports each finished epoch, and the position where the run is left.

    A Checkpoint, because Lightning runs those last: the model's own `on_train_epoch_end` has logged its
    metrics, and validation has ended (gradients are on again).

    Args:
        static_metrics: metrics that the model need not be trained for.
        report: takes each epoch, and the position where the run is left; whether it trains on after an epoch.
        schedule_from: epochs behind which the schedules of the learning rate begin.
    """

    best_model_path = last_model_path = kth_best_model_path = ""
    best_model_score = current_score = dirpath = filename = monitor = None
    best_k_models: Mapping[str, Any] = MappingProxyType({})
    """Models look for these at `trainer.checkpoint_callback`; the weights are kept elsewhere."""

    def __init__(
        self,
        config: FitConfig,
        before: Progress,
        *,
        static_metrics: Mapping[str, float],
        best: BestWeights,
        logger: TrialLogger,
        notices: Notices,
        is_to_leave: Callable[[], bool],
        report: Callable[[Report | Position], bool],
        schedule_from: int = 0,
    ) -> None:
        self._config, self._static_metrics, self._best = config, static_metrics, best
        self._logger, self._notices = logger, notices
        self._is_asked_to_leave, self._report = is_to_leave, report
        self.meter = Meter(config.threads or 1)
        self.has_begun = False
        """Whether the model has been built and is on its device."""
        is_short = config.steps_per_epoch is not None
        self.passes = 1 if is_short else config.check_val_every_n_epoch or 1
        """Of Lightning's epochs, those of an epoch here."""
        self._has_parts = self.passes > 1 or (config.interval is not None and not is_short)
        """Whether an epoch is no pass over the data, so that it can't be left inside."""
        self._first_epoch = before.epochs * self.passes
        self.progress = replace(before, schedule_from=schedule_from)
        self._restarts_schedules = schedule_from != before.schedule_from
        self._new_settings: list[dict[str, Any]] = []
        """Of the optimizers' parameter groups, as the model has just made them."""
        self._has_reported = False
        self._before: dict[str, Any] = {}
        self._growth = Growth()
        self._batches = 0
        """Of this epoch, so far."""
        self._batches_here = 0
        """Of these, the ones since the position where the epoch was left."""
        self._val_batches = 0
        self._epoch_began, self._asks_at_step = time.monotonic(), 1
        self._is_continued = False
        """Whether this epoch was left before."""
        self._left: dict[str, Any] | None = None
        """What continues at a position, beside the state of Lightning."""
        self._loaders: list[dict[str, Any]] = []
        """Positions of the loaders there."""

    def state_dict(self) -> dict[str, Any]:
        return {"left": self._left}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._left = state_dict["left"]

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self._restarts_schedules:
            checkpoint["lr_schedulers"] = []
        if self._has_parts and self.passes == 1:  # its pass is read again from the first batch on
            lightning_internals.loader_states(checkpoint).clear()
        left = checkpoint["callbacks"].get(self.state_key, {}).get("left")
        if left is None:
            return
        self._loaders = lightning_internals.loader_states(checkpoint)
        _split_anew(checkpoint, left["accumulation"], trainer.accumulate_grad_batches)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        # With a strategy for several processes Lightning has just taken all cores for this one, where
        # $OMP_NUM_THREADS is not set (`_set_num_threads_if_needed` of its launchers).
        torch.set_num_threads(self._config.threads or 1)
        seed_stream(self._config.seed, self._first_epoch)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._restarts_schedules:  # a checkpoint holds the learning rate, too, at the end of its schedule
            self._new_settings = [
                {name: value for name, value in group.items() if name != "params"}
                for group in _param_groups(trainer)
            ]
        if trainer.train_dataloader is None:  # the order is not drawn yet
            seed_stream(self._config.seed, self._first_epoch)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.meter.step_times.before_batch = lambda: self._leave_if_asked(trainer)
        self.has_begun = True
        if self._restarts_schedules:
            for group, settings in zip(_param_groups(trainer), self._new_settings, strict=True):
                group.update(settings)
        if self._left is not None:
            _restore_loaders(trainer, self._loaders)
            self._continue()
            return
        if isinstance(trainer, Trainer) and trainer.behind_order is not None:
            restore_random_states(trainer.behind_order)
        # Lightning steps these after an epoch's checkpoint, by metrics that the checkpoint lacks.
        if self._first_epoch:
            self._step_on_plateau(trainer, pl_module)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch != self._first_epoch:
            seed_stream(self._config.seed, trainer.current_epoch)
        self._batches = self._batches_here = 0
        self._epoch_began, self._asks_at_step = time.monotonic(), 1
        if trainer.current_epoch % self.passes == 0:
            self._before, self._val_batches = dict(trainer.callback_metrics), 0
            self.meter.begin()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._batches, self._batches_here = batch_idx + 1, self._batches_here + 1
        self.meter.look()
        if self._batches > MOST_BATCHES and trainer.num_training_batches == math.inf:
            raise CannotTrain(
                f"{_no_end('training')}. Give --epoch-steps, the steps of an epoch (for data that ends: as "
                "many as it has, or more)"
            )

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._val_batches += 1
        if batch_idx >= MOST_BATCHES and trainer.num_val_batches[dataloader_idx] == math.inf:
            raise CannotTrain(f"{_no_end('validation')}. Limit it: trainer_options, limit_val_batches")
        self.meter.look()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        epochs, passes = divmod(trainer.current_epoch + 1, self.passes)
        if passes:
            return
        # For a metric that this epoch did not log, Lightning holds the tensor of the epoch before.
        known = trainer.callback_metrics.items()
        logged = {name: float(value) for name, value in known if value is not self._before.get(name)}
        by_logger = trainer.strategy.broadcast(self._logger.new_scalars())  # of the first worker
        averaged = strategy.mean_over_workers(trainer, logged)
        name, metrics = self._config.objective.metric, {**self._static_metrics, **by_logger, **averaged}
        if name not in metrics:
            why = self._why_not_validated(trainer, pl_module)
            raise MetricNotLogged.from_logged(name, metrics, epochs, why)
        self._best.keep_if_best(trainer, shortest(metrics[name]))
        self.progress = replace(self.progress, epochs=epochs, metrics=metrics, score=self._best.score)
        seconds, costs = self.meter.end()
        notice = "; ".join(filter(None, [*self._notices.take(), self._growth.note(costs)]))
        schedule = None
        if not self._has_reported and isinstance(trainer, Trainer):
            begin, end = self.progress.schedule_from, self._config.max_epochs
            schedule = length_of_schedules(trainer, self.passes, begin, end)
        epoch = Report.from_metrics(epochs, name, metrics, seconds, costs, notice, schedule)
        self._has_reported = True
        # A callback may have added epochs to those that are asked for.
        if not self._report(epoch) or epoch.epoch >= self._config.max_epochs:
            trainer.should_stop = True
        if self._is_continued:  # nor does it step these at the end of an epoch that was continued
            self._step_on_plateau(trainer, pl_module)
            self._is_continued = False

    def _why_not_validated(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> str:
        """Why this epoch had no validation; "" where it had, or where the model has none."""
        if not self._batches:
            return NO_BATCH.format("training")
        if self._val_batches or not is_overridden("validation_step", pl_module):
            return ""
        if self._batches < trainer.num_training_batches != math.inf:
            return (
                f"the epoch ended after {self._batches} of {trainer.num_training_batches} batches (the data "
                "has fewer than its length says, or on_train_batch_start returned -1), and Lightning "
                f"validates behind the last one only. Give --val-check-interval {self._batches}"
            )
        return (
            NO_BATCH.format("validation") if trainer.enable_validation else "there is no data for validation"
        )

    def _leave_if_asked(self, trainer: pl.Trainer) -> None:
        """Leave the epoch if that is asked for, before the next batch is fetched: all hooks of the last one
        have run by then, in a checkpoint of `on_train_batch_end` the module's own has not."""
        position = None if self._has_parts else _position(trainer, self._batches)
        if position is None or not self._is_to_leave(trainer) or not _can_continue(trainer):
            return
        self._left = {
            "random": random_states(),
            "seconds": self.meter.end()[0],
            "accumulation": trainer.accumulate_grad_batches,
        }
        self._report(position)
        raise LeftInside

    def _is_to_leave(self, trainer: pl.Trainer) -> bool:
        """Whether the first worker is asked to; all workers leave at the same step."""
        if trainer.world_size == 1:
            return self._is_asked_to_leave()
        if (step := self._batches_here // trainer.accumulate_grad_batches) < self._asks_at_step:
            return False
        # A question is a collective operation; in it the first worker tells when the next one is due.
        step_s = max(1e-9, (time.monotonic() - self._epoch_began) / step)
        next_step = step + max(1, min(ASK_EVERY_STEPS, int(ASK_EVERY_S / step_s)))
        leaves, self._asks_at_step = trainer.strategy.broadcast((self._is_asked_to_leave(), next_step))
        return bool(leaves)

    def _continue(self) -> None:
        """Continue the epoch at the position where it was left."""
        assert self._left is not None
        restore_random_states(self._left["random"])
        self.meter.begin(self._left["seconds"])
        self._is_continued, self._left = True, None

    def _step_on_plateau(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Step the schedules that go by a metric, after the last epoch that ended."""
        epoch, metrics = self.progress.epochs * self.passes, self.progress.metrics
        for config in trainer.lr_scheduler_configs:
            is_due = config.reduce_on_plateau and config.interval == "epoch" and epoch % config.frequency == 0
            if is_due and config.monitor is not None and config.monitor in metrics:
                pl_module.lr_scheduler_step(config.scheduler, metrics[config.monitor])


def _param_groups(trainer: pl.Trainer) -> list[dict[str, Any]]:
    return [group for optimizer in trainer.optimizers for group in optimizer.param_groups]


def _can_continue(trainer: pl.Trainer) -> bool:
    """Whether the training data can continue inside an epoch."""
    is_made_early = isinstance(trainer, Trainer) and trainer.behind_order is not None
    return all(
        isinstance(each, Loader)
        or (hasattr(each, "state_dict") and hasattr(each, "load_state_dict") and not is_made_early)
        for each in CombinedLoader(trainer.train_dataloader).flattened
    )


def _position(trainer: pl.Trainer, batches: int) -> Position | None:
    """The position after so many batches of an epoch; None before the first step, inside the accumulation of
    a step, after the last batch, and where the data does not say which one is the last."""
    of_epoch = trainer.num_training_batches
    if of_epoch == math.inf or not 0 < batches < of_epoch or batches % trainer.accumulate_grad_batches:
        return None
    return Position(trainer.current_epoch + 1, batches, int(of_epoch))


def _restore_loaders(trainer: pl.Trainer, states: list[dict[str, Any]]) -> None:
    """Let prepared data continue at these positions, before its first batch.

    Lightning restores them only while it makes the loaders, and forgets them where these were made before: a
    model that reads `estimated_stepping_batches` has them made with its optimizers (Lightning#20550). Other
    loaders may take a position only before they begin, which they have by now: no run is left inside an epoch
    of theirs.
    """
    for loader, state in zip(CombinedLoader(trainer.train_dataloader).flattened, states, strict=False):
        if isinstance(loader, Loader):
            loader.load_state_dict(state)


def _split_anew(checkpoint: dict[str, Any], before: int, now: int) -> None:
    """Let a checkpoint inside an epoch continue with another accumulation.

    Raises:
        CheckpointUnusable: the loader counts in a way that is not known.
    """
    if before == now:
        return
    if not all("batch_size" in state for state in lightning_internals.loader_states(checkpoint)):
        raise CheckpointUnusable(
            "the last checkpoint is inside an epoch, where the loader of the data can't continue with "
            "another micro-batch"
        )
    lightning_internals.count_batches_anew(checkpoint, before, now)


def _no_end(part: str) -> str:
    return f"the {part} data has had {MOST_BATCHES:,} batches in an epoch, and does not say how long it is"
