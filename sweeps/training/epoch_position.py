"""Leave a training run inside an epoch, and continue it there.

The position is the one between two optimizer steps. Lightning's checkpoint holds the number of batches, and
that of each loader that has `state_dict` (torchdata's StatefulDataLoader, the loader of prepared data). Other
loaders would begin the epoch again, so that a run with one of them is left at the end of an epoch only.

Means that Lightning takes over the batches of a training epoch (`self.log(..., on_epoch=True)` in
`training_step`) are those of the batches after the position; validation is always whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities import CombinedLoader

from sweeps.common.errors import CannotTrain
from sweeps.training import lightning_internals
from sweeps.training.data.datamodule import Loader


@dataclass(frozen=True)
class Position:
    """Between two optimizer steps of an epoch."""

    epoch: int
    """1-based; it has not ended."""
    batch: int
    """Batches of it that were trained on, by each worker."""
    batches: int
    """Batches of the whole epoch."""

    def __str__(self) -> str:
        return f"epoch {self.epoch}, batch {self.batch} of {self.batches}"


class CannotContinue(CannotTrain):
    """A run can't continue from its checkpoint, but from an earlier one."""


def can_continue(trainer: pl.Trainer) -> bool:
    """Whether the training data can continue inside an epoch."""
    loaders = CombinedLoader(trainer.train_dataloader).flattened
    return all(hasattr(each, "state_dict") and hasattr(each, "load_state_dict") for each in loaders)


def position(trainer: pl.Trainer, batches: int) -> Position | None:
    """The position after so many batches of an epoch; None before the first step, inside the accumulation of
    a step, after the last batch, and where the data does not say which one is the last."""
    of_epoch = trainer.num_training_batches
    if of_epoch == math.inf or not 0 < batches < of_epoch or batches % trainer.accumulate_grad_batches:
        return None
    return Position(trainer.current_epoch + 1, batches, int(of_epoch))


def restore_loaders(trainer: pl.Trainer, states: list[dict[str, Any]]) -> None:
    """Let prepared data continue at these positions, before its first batch.

    Lightning restores them only while it makes the loaders, and forgets them where these were made before: a
    model that reads `estimated_stepping_batches` has them made with its optimizers (Lightning#20550). Other
    loaders may take a position only before they begin, which they have by now.
    """
    for loader, state in zip(CombinedLoader(trainer.train_dataloader).flattened, states, strict=False):
        if isinstance(loader, Loader):
            loader.load_state_dict(state)


def split_anew(checkpoint: dict[str, Any], before: int, now: int) -> None:
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
