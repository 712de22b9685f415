"""Between two epochs: seed the next one, report the last one. Inside one: leave it where that is asked.

A run is left between two optimizer steps. Lightning's checkpoint holds the number of batches, and the place
of each loader that has `state_dict` (torchdata's StatefulDataLoader, the loader of prepared data). Other
loaders would begin the epoch again, so that a run with one of them is left at the end of an epoch only.

Means that Lightning takes over the batches of a training epoch (`self.log(..., on_epoch=True)` in
`training_step`) are those of the batches after the position; validation is always whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
from lightning.pytorch.utilities import CombinedLoader
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch.nn.parameter import UninitializedParameter
from torch.utils.hooks import RemovableHandle

from sweeps.common.errors import CannotTrain, MetricNotLogged
from sweeps.common.formatting import shortest
from sweeps.training import lightning_internals
from sweeps.training.config import FitConfig
from sweeps.training.data.datamodule import Loader
from sweeps.training.distributed import strategy
from sweeps.training.profiling.memory import Growth
from sweeps.training.profiling.step_profiler import Meter
from sweeps.training.report import CannotContinue, Position, Report
from sweeps.training.torch_state import random_states, restore_random_states, seed_epoch
from sweeps.training.trainer import Trainer

OnEpoch = Callable[[Report | Position], bool]
"""Called with each finished epoch, and with the position where a run is left inside an epoch. False ends the
training; after a position nothing is trained on, whatever it returns."""
_Answer = TypeVar("_Answer")
NO_BATCH = "the {} data has no batch: no rows, or with drop_last=True too few for one"
ASK_EVERY_STEPS = 10
"""Between two questions of several workers to each other whether to leave the epoch."""
MOST_BATCHES = 10_000
"""Of data that does not say how long it is: behind them it is taken to have no end."""


class LeftInside(BaseException):
    """Unwinds Lightning's loops at a position."""


class Fit(Protocol):
    """The part of `fit_loop.Fit` that `EpochEnd` uses."""

    config: FitConfig
    meter: Meter
    first_epoch: int
    epochs: int
    last_metrics: Mapping[str, float]
    static_metrics: Mapping[str, float]
    has_begun: bool
    is_to_leave: Callable[[], bool]

    def agree(self, answer: _Answer) -> _Answer: ...

    def note_scored(self) -> None: ...

    def keep_if_best(self, score: float) -> None: ...

    def logged_scalars(self) -> Mapping[str, float]: ...

    def new_notices(self) -> list[str]: ...


class ScoredWeights(pl.Callback):
    """Notes the weights that were validated. It must be the first callback: a later one may have swapped
    averaged weights in for the validation, and takes them out at its end."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self._hook: RemovableHandle | None = None
        self._used: tuple[torch.Tensor, torch.Tensor] | None = None
        """A weight of the model, and a copy of it as the first batch was validated with it."""

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        is_sharded = isinstance(trainer.strategy, FSDPStrategy | DeepSpeedStrategy)
        if batch_idx or is_sharded or self._fit.config.compile:
            return
        own = ((layer, next(layer.parameters(recurse=False), None)) for layer in pl_module.modules())
        layer, weight = next((each for each in own if each[1] is not None), (None, None))
        if layer is not None and weight is not None and not isinstance(weight, UninitializedParameter):
            self._hook = layer.register_forward_pre_hook(partial(self._note, weight))

    def on_validation_batch_end(self, *_: Any) -> None:
        if self._hook is None:
            return
        self._hook.remove()
        used, self._hook, self._used = self._used, None, None
        if used is not None and not torch.equal(*used):
            raise CannotTrain(
                "validation_step scores other weights than the model has behind it, so that others would be "
                "kept than those that were scored. Swap averaged weights in on_validation_start, and out in "
                "on_validation_end, as Lightning's EMAWeightAveraging does"
            )

    def _note(self, weight: torch.Tensor, *_: Any) -> None:
        self._used = self._used or (weight, weight.detach().clone())

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._fit.note_scored()


class EpochEnd(Checkpoint):
    """Calls `on_epoch` with each finished epoch.

    A Checkpoint, because Lightning runs those last: the model's own `on_train_epoch_end` has logged its
    metrics, and validation has ended (gradients are on again).
    """

    best_model_path = last_model_path = kth_best_model_path = ""
    best_model_score = current_score = dirpath = filename = monitor = None
    best_k_models: Mapping[str, Any] = MappingProxyType({})
    """Models look for these at `trainer.checkpoint_callback`; the weights are kept elsewhere."""

    def __init__(self, fit: Fit, on_epoch: OnEpoch) -> None:
        self._fit = fit
        self._on_epoch = on_epoch
        self._before: dict[str, Any] = {}
        self._growth = Growth()
        self._batches = 0
        """Of this epoch, so far."""
        self._val_batches = 0
        self._seconds_before = 0.0
        """Of this epoch, before the position where it was left."""
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
        left = checkpoint["callbacks"].get(self.state_key, {}).get("left")
        if left is None:
            return
        self._loaders = lightning_internals.loader_states(checkpoint)
        now = trainer.accumulate_grad_batches
        _split_anew(checkpoint, left.get("accumulation", now), now)  # older ones lack it

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        # With a strategy for several processes Lightning has just taken all cores for this one, where
        # $OMP_NUM_THREADS is not set (`_set_num_threads_if_needed` of its launchers).
        torch.set_num_threads(self._fit.config.threads or 1)
        self._seed(self._fit.first_epoch)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.train_dataloader is None:  # the order is not drawn yet
            self._seed(self._fit.first_epoch)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._fit.meter.step_times.before_batch = lambda: self._leave_if_asked(trainer)
        self._fit.has_begun = True
        if self._left is not None:
            _restore_loaders(trainer, self._loaders)
            self._continue()
            return
        if isinstance(trainer, Trainer) and trainer.behind_order is not None:
            restore_random_states(trainer.behind_order)
        # Lightning steps these after an epoch's checkpoint, by metrics that the checkpoint lacks.
        if self._fit.first_epoch:
            self._step_on_plateau(trainer, pl_module)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch != self._fit.first_epoch:
            self._seed(trainer.current_epoch)
        self._before = dict(trainer.callback_metrics)
        self._batches, self._val_batches, self._seconds_before = 0, 0, 0.0
        self._fit.meter.begin()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._batches = batch_idx + 1
        self._fit.meter.look()
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
        self._fit.meter.look()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # For a metric that this epoch did not log, Lightning holds the tensor of the epoch before.
        known = trainer.callback_metrics.items()
        logged = {name: float(value) for name, value in known if value is not self._before.get(name)}
        by_logger = self._fit.logged_scalars()
        name, names = self._fit.config.objective.metric, {*self._fit.static_metrics, *logged, *by_logger}
        if name not in names:
            why = self._why_not_validated(trainer, pl_module)
            raise MetricNotLogged.from_logged(name, names, trainer.current_epoch + 1, why)
        averaged = strategy.mean_over_workers(trainer, logged)
        metrics = {**self._fit.static_metrics, **by_logger, **averaged}
        self._fit.last_metrics, self._fit.epochs = metrics, trainer.current_epoch + 1
        self._fit.keep_if_best(shortest(metrics[name]))
        seconds, costs = self._fit.meter.end()
        seconds += self._seconds_before
        notice = "; ".join(filter(None, [*self._fit.new_notices(), self._growth.note(costs)]))
        epoch = Report.from_metrics(trainer.current_epoch + 1, name, metrics, seconds, costs, notice)
        # A callback may have added epochs to those that are asked for.
        if not self._on_epoch(epoch) or epoch.epoch >= self._fit.config.max_epochs:
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
        return (
            NO_BATCH.format("validation") if trainer.enable_validation else "there is no data for validation"
        )

    def _leave_if_asked(self, trainer: pl.Trainer) -> None:
        """Leave the epoch if that is asked for, before the next batch is fetched: all hooks of the last one
        have run by then, in a checkpoint of `on_train_batch_end` the module's own has not."""
        position = _position(trainer, self._batches)
        if position is None or not self._is_to_leave(trainer) or not _can_continue(trainer):
            return
        seconds = self._fit.meter.end()[0] + self._seconds_before
        accumulation = trainer.accumulate_grad_batches
        self._left = {
            "random": random_states(),
            "seconds": seconds,
            "accumulation": accumulation,
        }
        self._on_epoch(position)
        raise LeftInside

    def _is_to_leave(self, trainer: pl.Trainer) -> bool:
        """Whether the first worker is asked to; all workers leave at the same step."""
        if trainer.world_size == 1:
            return self._fit.is_to_leave()
        # A question is a collective operation.
        is_asked_now = self._batches // trainer.accumulate_grad_batches % ASK_EVERY_STEPS == 0
        return is_asked_now and self._fit.agree(self._fit.is_to_leave())

    def _continue(self) -> None:
        """Continue the epoch at the position where it was left."""
        assert self._left is not None
        restore_random_states(self._left["random"])
        self._seconds_before, self._left = self._left["seconds"], None
        self._is_continued = True
        self._fit.meter.begin()

    def _step_on_plateau(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Step the schedules that go by a metric, after the last epoch that ended."""
        epoch, metrics = self._fit.epochs, self._fit.last_metrics
        for config in trainer.lr_scheduler_configs:
            is_due = config.reduce_on_plateau and config.interval == "epoch" and epoch % config.frequency == 0
            if is_due and config.monitor is not None and config.monitor in metrics:
                pl_module.lr_scheduler_step(config.scheduler, metrics[config.monitor])

    def _seed(self, epoch: int) -> None:
        seed_epoch(self._fit.config.seed, epoch)


def _can_continue(trainer: pl.Trainer) -> bool:
    """Whether the training data can continue inside an epoch."""
    loaders = CombinedLoader(trainer.train_dataloader).flattened
    return all(hasattr(each, "state_dict") and hasattr(each, "load_state_dict") for each in loaders)


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
    loaders may take a position only before they begin, which they have by now.
    """
    for loader, state in zip(CombinedLoader(trainer.train_dataloader).flattened, states, strict=False):
        if isinstance(loader, Loader):
            loader.load_state_dict(state)


def _split_anew(checkpoint: dict[str, Any], before: int, now: int) -> None:
    """Let a checkpoint inside an epoch continue with another accumulation.

    Raises:
        CannotContinue: the loader counts in a way that is not known.
    """
    if before == now:
        return
    if not all("batch_size" in state for state in lightning_internals.loader_states(checkpoint)):
        raise CannotContinue(
            "the last checkpoint is inside an epoch, where the loader of the data can't continue with "
            "another micro-batch"
        )
    lightning_internals.count_batches_anew(checkpoint, before, now)


def _no_end(part: str) -> str:
    return f"the {part} data has had {MOST_BATCHES:,} batches in an epoch, and does not say how long it is"
