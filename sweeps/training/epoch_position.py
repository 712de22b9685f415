"""Leave a training run inside an epoch, and continue it there.

The position is the one between two optimizer steps. Lightning's checkpoint holds the number of batches, and
that of each loader that has `state_dict` (torchdata's StatefulDataLoader, the loader of prepared data). Other
loaders would begin the epoch again, so that a run with one of them is left at the end of an epoch only.

Means that Lightning takes over the batches of a training epoch (`self.log(..., on_epoch=True)` in
`training_step`) are those of the batches after the position; validation is always whole.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.utilities import CombinedLoader

from sweeps.common.errors import CannotTrain
from sweeps.training import lightning_internals
from sweeps.training.data.datamodule import Loader

ASK_EVERY_STEPS, ASK_EVERY_S = 10, 2.0
"""Most steps and most time between two questions of several workers to each other whether to leave the epoch:
a question is a collective operation. A single step may take longer."""


class Questions:
    """After which steps of an epoch several workers ask whether to leave it. The first worker decides it for
    all of them, by the time of its steps.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.next_step = 0
        """Of the epoch; none is asked before."""
        self._before: tuple[int, float] | None = None
        """Step and time of the question before."""

    def begin(self) -> None:
        """Begin an epoch: ask after its first two steps."""
        self.next_step, self._before = 0, None

    def next_after(self, step: int) -> int:
        """The step of the question after one at this step."""
        before, self._before = self._before, (step, self._clock())
        if before is None:
            return step + 1
        step_s = (self._before[1] - before[1]) / (step - before[0])
        most = ASK_EVERY_S / step_s if step_s else ASK_EVERY_STEPS
        return step + max(1, int(min(most, ASK_EVERY_STEPS)))


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


def random_states() -> dict[str, Any]:
    """The random numbers to come of Python, NumPy and PyTorch, for a checkpoint."""
    states = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    # Where nothing has used the GPU, to ask it would start it.
    is_started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # PyTorch has no type for it
    return states | ({"cuda": torch.cuda.get_rng_state()} if is_started else {})


def restore_random_states(states: dict[str, Any]) -> None:
    """Draw the random numbers that were to come; on a GPU only those of a run that was on a GPU."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"].cpu())
    if torch.cuda.is_available() and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu())
