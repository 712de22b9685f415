"""Parts of Lightning that its documentation does not promise. No other module of this room uses any.

A test of each names Lightning's version where it has changed.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

NEXT_BATCH = "[_TrainingEpochLoop].train_dataloader_next"
"""The profiler's action of fetching a training batch. No hook is between two batches: a callback's
`on_train_batch_end` comes before that of the model, and before Lightning's loop counts the batch."""
_PARTS = {
    "train_dataloader_next": "data_wait",
    "batch_to_device": "transfer",
    "training_step": "forward",
    "backward": "backward",
    "save_checkpoint": "checkpoint",
}
_COUNTED = ("[Strategy]", "[_TrainingEpochLoop]", "save_checkpoint")
"""Prefixes of actions that count; a module's own hook of the same name lies inside, and would count twice."""


def _if_known(function: Any, **options: Any) -> dict[str, Any]:
    """Those of the options that this release has."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in known}


WHOLE_CHECKPOINT = _if_known(pl.Trainer.fit, weights_only=False)
"""Of `fit` and `test`: read a checkpoint with its loops and optimizers. Before 2.6 there was no other way."""
NO_AUTOLOG = _if_known(pl.Trainer.__init__, enable_autolog_hparams=False)
"""Of a Trainer: log no hyperparameters, which the record has. Before 2.6 it had no such option."""


def mode_of(loaders: Any, otherwise: Any) -> Any:
    """How a CombinedLoader combines its loaders."""
    return loaders._mode if isinstance(loaders, CombinedLoader) else otherwise


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
