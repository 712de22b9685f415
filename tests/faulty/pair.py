"""A small classifier for several workers, of which one goes wrong as the hyperparameter `fault` says.

Each epoch is one batch of all rows: in whatever order, the workers together see what one would. Each epoch
that a worker begins is written into the folder $TOY_ATTEMPTS.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException

from trainables._shared.classifier import Classifier
from trainables._shared.digits import Digits

METRIC, MODE = "val_loss", "min"
LAST_WORKER = 1


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the pair."""

    fault: str = "none"
    """none, flaky (the last worker raises once), raises (always), killed (the last worker's process, once),
    killed_first (the first one's, once), terminated (the last worker, as its training begins), unsaved (the
    last worker raises as it saves), chatty (each prints much)."""
    lr: float = 0.01
    """Step size of Adam, > 0."""
    batch_size: int = 1200
    """Rows of a batch, > 0."""
    epoch_s: float = 0.0
    """Seconds an epoch sleeps."""


class Pair(Classifier):
    """Adam, since its state is what ZeRO shards."""

    def __init__(self, params: Params) -> None:
        hidden = torch.nn.Linear(64, 16), torch.nn.ReLU()
        super().__init__(torch.nn.Sequential(*hidden, torch.nn.Linear(16, 10)))
        self.params, self.saves = params, 0

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=self.params.lr)

    def on_train_epoch_start(self) -> None:
        time.sleep(self.params.epoch_s)
        fault, rank = self.params.fault, self.global_rank
        print(f"epoch {self.current_epoch + 1} of {rank}", flush=True)
        _note(f"{fault}-{rank}", f"{self.current_epoch + 1} {os.getpid()}")
        if fault == "terminated" and rank == LAST_WORKER:
            raise SIGTERMException
        if fault == "chatty":
            os.write(1, b"first \xff of %d\n%slast of %d\n" % (rank, 4000 * b"between them\n", rank))
        if self.current_epoch != 2:
            return
        is_first_time = len(begun(_folder(), fault, rank)) == 3
        if fault == "raises" and rank == LAST_WORKER:
            raise RuntimeError("the last worker broke")
        if fault == "flaky" and rank == LAST_WORKER and is_first_time:
            raise RuntimeError("the last worker broke once")
        if fault == "killed" and rank == LAST_WORKER and is_first_time:
            _wait_for_the_first(fault, epochs=3)
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "killed_first" and rank == 0 and is_first_time:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.saves += 1  # the first one is that of the best weights
        if self.params.fault == "unsaved" and self.saves > 1 and self.global_rank == LAST_WORKER:
            raise RuntimeError("the last worker can't save")


def build_model(params: Params) -> Pair:
    return Pair(params)


def build_data(params: Params) -> pl.LightningDataModule:
    return Digits(params.batch_size)


def begun(folder: Path, fault: str, rank: int) -> list[tuple[int, int]]:
    """Epochs that a worker has begun, and its process."""
    file = folder / f"{fault}-{rank}"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(epoch), int(pid)) for epoch, pid in map(str.split, lines)]


def _wait_for_the_first(fault: str, epochs: int) -> None:
    """Until the first worker has begun so many epochs, too; without, it may end before it begins this one."""
    until = time.monotonic() + 60
    while len(begun(_folder(), fault, 0)) < epochs and time.monotonic() < until:
        time.sleep(0.01)


def _folder() -> Path:
    return Path(os.environ["TOY_ATTEMPTS"])


def _note(name: str, line: str) -> None:
    with (_folder() / name).open("a") as file:
        file.write(f"{line}\n")
