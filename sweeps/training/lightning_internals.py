"""Parts of Lightning that its documentation does not promise. No other module of this room uses any.

A test of each names Lightning's version where it has changed.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.loops.fetchers import _PrefetchDataFetcher
from lightning.pytorch.loops.optimization.automatic import Closure, ClosureResult
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from lightning.pytorch.plugins.precision import Precision
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

NEXT_BATCH = "[EpochLoop].train_dataloader_next"
"""The profiler's action of fetching a training batch. No hook is between two batches: a callback's
`on_train_batch_end` comes before that of the model, and before Lightning's loop counts the batch."""
_PARTS = {
    "train_dataloader_next": "data_wait",
    "batch_to_device": "transfer",
    "training_step": "forward",
    "backward": "backward",
    "save_checkpoint": "checkpoint",
}
_COUNTED = ("[Strategy]", "[EpochLoop]", "save_checkpoint")
"""Prefixes of actions that count; a module's own hook of the same name lies inside, and would count twice."""


def _if_known(function: Any, **options: Any) -> dict[str, Any]:
    """Those of the options that this release has."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in known}


WHOLE_CHECKPOINT = _if_known(pl.Trainer.fit, weights_only=False)
"""Of `fit` and `test`: read a checkpoint with its loops and optimizers. Before 2.6 there was no other way."""
NO_AUTOLOG = _if_known(pl.Trainer.__init__, enable_autolog_hparams=False)
"""Of a Trainer: log no hyperparameters, which the record has. Before 2.6 it had no such option."""


def mode_of(loaders: Any) -> Any:
    """How a CombinedLoader combines its loaders; of others, as Lightning does by default."""
    return loaders._mode if isinstance(loaders, CombinedLoader) else "max_size_cycle"


def is_called_by_lightning() -> bool:
    """Whether the caller of this function's caller is Lightning itself, and not a model."""
    return bool(sys._getframe(2).f_globals.get("__name__", "").startswith("lightning."))


def part_of_step(action: str) -> str | None:
    """The part of a step that an action of the profiler takes; None of one that is not counted."""
    name = action.rsplit(".", 1)[-1]
    if name == "optimizer_step":  # the module's hook is the outermost
        return "step" if action.startswith("[LightningModule]") else None
    return _PARTS.get(name) if action.startswith(_COUNTED) else None


def loader_states(checkpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The positions of the training data's loaders in a checkpoint."""
    states: list[dict[str, Any]] = checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
    return states


def count_batches_anew(checkpoint: dict[str, Any], before: int, now: int) -> None:
    """Count the batches of a checkpoint inside an epoch in those of another accumulation.

    Args:
        checkpoint: as it is loaded; is changed.
        before: accumulation with which it was written.
        now: accumulation with which it continues.
    """
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for name, batches in progress["current"].items():
        progress["current"][name] = batches // before * now
        progress["total"][name] += progress["current"][name] - batches


class EpochLoop(_TrainingEpochLoop):
    """Lightning's loop over the batches of an epoch, with a step that takes a small model less time.

    Lightning's step goes through 23 hooks, each by its name and in a context of the profiler, though most are
    empty. That takes half a millisecond, and is meant so (Lightning#6196). Here a step calls the hooks that
    somebody has written. Their order, the losses, what is logged and all counters are the same. Whatever is
    not the usual step on one device goes Lightning's way.
    """

    _known_step: Any = None
    _arguments = 2
    """How many `_known_step` takes of a batch and its index."""

    def advance(self, data_fetcher: Any) -> None:
        if not self._is_usual(data_fetcher):
            super().advance(data_fetcher)
            return
        trainer, progress, results = self.trainer, self.batch_progress, self._results
        connector = trainer._logger_connector
        self.val_loop._restarting = False
        batch, _, _ = next(data_fetcher)
        index, output = self.batch_idx + 1, None
        progress.is_last_batch = data_fetcher.done
        with trainer.profiler.profile("[Strategy].batch_to_device"):
            batch = _moved(trainer.precision_plugin.convert_input(batch), trainer.strategy.root_device)
        progress.increment_ready()
        connector._first_loop_iter = connector._first_loop_iter is None
        results.batch, results.batch_size, results.dataloader_idx = batch, None, None
        if batch is None:
            self._warning_cache.warn("train_dataloader yielded None: there is no step")
        else:
            self._call("on_train_batch_start", batch, index)
            progress.increment_started()
            output = self._step(batch, index)
        progress.increment_processed()
        if trainer.lr_scheduler_configs:
            self.update_lr_schedulers("step", update_plateau_schedulers=False)
            if self._num_ready_batches_reached():
                self.update_lr_schedulers("epoch", update_plateau_schedulers=False)
        self._call("on_train_batch_end", output, batch, index)
        if is_logged := any(True for _ in results.valid_items()):
            connector.on_batch_end()
        results.batch = results.batch_size = None
        progress.increment_completed()
        if is_logged:
            connector.update_train_step_metrics()

    def _is_usual(self, data_fetcher: Any) -> bool:
        trainer, model = self.trainer, self.trainer.lightning_module
        data = trainer.datamodule
        return (
            type(trainer.strategy) is SingleDeviceStrategy
            and type(data_fetcher) is _PrefetchDataFetcher
            and not self.restarting
            and model.automatic_optimization
            and trainer.accumulate_grad_batches == 1
            and not self.automatic_optimization._skip_backward
            and not any(_written(model, hook, pl.LightningModule) for hook in (*_OF_STEPS, *_OF_BATCHES))
            and (
                data is None or not any(_written(data, hook, pl.LightningDataModule) for hook in _OF_BATCHES)
            )
        )

    def _step(self, batch: Any, index: int) -> Any:
        """Forward, backward, and the step of the optimizer; what `training_step` has returned."""
        trainer, model, plugin = self.trainer, self.trainer.lightning_module, self.trainer.precision_plugin
        optimizer, progress = trainer.optimizers[0], self.automatic_optimization.optim_progress.optimizer
        profile, is_fp32 = trainer.profiler.profile, type(plugin) is Precision

        def forward() -> ClosureResult:
            step, names = model.training_step, vars(model)
            if step != self._known_step:
                self._known_step = step
                self._arguments = len(self._build_kwargs(OrderedDict(), batch, index))
            before, names["_current_fx_name"] = names["_current_fx_name"], "training_step"
            with profile("[Strategy].training_step"), plugin.train_step_context():
                output = step(*(batch, index)[: self._arguments])
            names["_current_fx_name"] = before
            is_loss = isinstance(output, torch.Tensor)
            return ClosureResult(output) if is_loss else ClosureResult.from_training_step_output(output)

        def zero_grad() -> None:
            progress.zero_grad.increment_ready()
            self._call("on_before_zero_grad", optimizer)
            progress.zero_grad.increment_started()
            optimizer.zero_grad()
            progress.zero_grad.increment_completed()

        def backward(loss: torch.Tensor) -> None:
            with profile("[Strategy].backward"):
                if not is_fp32:
                    trainer.strategy.backward(loss, optimizer)
                    return
                self._call("on_before_backward", loss)
                loss.backward()  # type: ignore[no-untyped-call]
                self._call("on_after_backward")

        def closure_of_fp32() -> Any:
            loss = closure()
            self._call("on_before_optimizer_step", optimizer)
            if (clip := trainer.gradient_clip_val) is not None:
                plugin._clip_gradients(model, optimizer, clip, trainer.gradient_clip_algorithm)
            return loss

        closure = Closure(forward, backward, zero_grad)
        progress.step.increment_ready()
        with profile("[LightningModule].optimizer_step"):
            if is_fp32:
                optimizer.step(closure=closure_of_fp32)
            else:
                plugin.optimizer_step(optimizer, model=model, closure=closure)
        progress.step.increment_completed()
        result = closure.consume_result()
        return {} if result.loss is None else result.asdict()

    def _call(self, hook: str, *arguments: Any) -> None:
        """Call a hook of the callbacks, then of the model."""
        trainer, model = self.trainer, self.trainer.lightning_module
        names = vars(model)  # to assign an attribute takes a module a microsecond
        before, names["_current_fx_name"] = names["_current_fx_name"], hook
        for callback in trainer.callbacks:
            if function := _written(callback, hook, pl.Callback):
                function(trainer, model, *arguments)
        if function := _written(model, hook, pl.LightningModule):
            function(*arguments)
        names["_current_fx_name"] = before


_OF_BATCHES = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
_OF_STEPS = (
    "on_train_batch_start", "optimizer_step", "optimizer_zero_grad", "backward",
    "configure_gradient_clipping",
)  # fmt: skip
"""With one of these hooks of its own, a model's step is not the usual one."""


def _written(owner: object, hook: str, parent: type) -> Callable[..., Any] | None:
    """A hook; None where it is still that of Lightning's class."""
    function = getattr(owner, hook)
    is_own = getattr(function, "__func__", None) is not getattr(parent, hook)
    return function if is_own and callable(function) else None


def _moved(batch: Any, device: torch.device) -> Any:
    """A batch on a device, without Lightning's search for tensors where there are only tensors."""
    if (kind := type(batch)) in (list, tuple) and all(type(each) is torch.Tensor for each in batch):
        return kind(each.to(device, non_blocking=device.type == "cuda") for each in batch)
    return move_data_to_device(batch, device)


def init_deepspeed(strategy: DeepSpeedStrategy) -> None:
    """Let DeepSpeed start its process group, as `DeepSpeedStrategy.setup_distributed` does on a GPU."""
    strategy._init_deepspeed_distributed()


class FsdpStrategy(FSDPStrategy):
    """FSDP, also on a CPU: Lightning refuses its own class there, but not a subclass."""

    def _setup_model(self, model: nn.Module) -> nn.Module:
        # Lightning passes the index of the device. A CPU has none, and FSDP then looks for a GPU.
        if self.root_device.type != "cpu":
            return super()._setup_model(model)
        return FullyShardedDataParallel(
            model,
            mixed_precision=self.mixed_precision_config,
            sharding_strategy=self.sharding_strategy,
            device_id=self.root_device,
            **self.kwargs,
        )
