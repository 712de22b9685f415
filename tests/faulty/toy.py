"""A trainable of a few milliseconds an epoch whose hyperparameter `fault` says how it goes wrong.

Every attempt, and every epoch, is written into the folder $TOY_ATTEMPTS.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

METRIC, MODE = "score", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the toy."""

    fault: str = "none"
    """none, raises, exits, diverges, flaky (raises once), killed (kills its process once), kills, crashes,
    leaves (end its process each time, by SIGKILL, by SIGSEGV and with exit status 3), stops
    (early, by itself), cannot_save, killed_in_save (once), killed_at_end (once, in teardown), mute
    (never logs its metric), hangs, cannot_test, exhausts (the memory of the control group $TOY_CGROUP,
    once)."""
    slope: float = 1.0
    """Score gained per epoch."""
    epoch_s: float = 0.0
    """Seconds an epoch sleeps."""
    save_s: float = 0.0
    """Seconds that writing a checkpoint takes."""


class Toy(pl.LightningModule):
    """One weight; its score is slope x epoch."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return ((self.weight - batch[0].mean()) ** 2).sum()

    def on_train_epoch_start(self) -> None:
        _note("begun", f"{self.params.slope} {self.current_epoch + 1}")
        time.sleep(self.params.epoch_s)
        if self.current_epoch == 1:
            _go_wrong(self.params.fault)

    def on_train_epoch_end(self) -> None:
        score = self.params.slope * (self.current_epoch + 1)
        if self.params.fault == "diverges" and self.current_epoch == 1:
            score = float("nan")
        if self.params.fault != "mute":
            self.log("score", score)
        self.log("other", 1.0)
        _note("epochs", f"{self.params.slope} {self.current_epoch + 1}")
        if self.params.fault == "stops" and self.current_epoch == 1:
            self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.params.fault == "cannot_save":
            raise OSError("disk quota exceeded")
        if self.params.fault == "killed_in_save" and _is_first(self.params.fault):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.params.save_s)

    def on_fit_end(self) -> None:
        if self.params.fault == "killed_at_end" and _is_first(self.params.fault):
            os.kill(os.getpid(), signal.SIGKILL)

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        if self.params.fault == "cannot_test":
            raise RuntimeError("no test today")
        _note("tested")
        self.log("test_score", self.params.slope)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def build_model(params: Params) -> Toy:
    _note(params.fault)
    return Toy(params)


def build_data(params: Params) -> pl.LightningDataModule:
    rows: DataLoader[Any] = DataLoader(TensorDataset(torch.ones(4, 1)), batch_size=2)
    return pl.LightningDataModule.from_datasets(rows.dataset, test_dataset=rows.dataset, batch_size=2)


def attempts(folder: Path, fault: str) -> int:
    """How often a trial with this fault was begun."""
    file = folder / fault
    return len(file.read_text().splitlines()) if file.exists() else 0


def _note(word: str, line: object = None) -> None:
    with (Path(os.environ["TOY_ATTEMPTS"]) / word).open("a") as file:
        file.write(f"{line or os.getpid()}\n")


def _is_first(fault: str) -> bool:
    return attempts(Path(os.environ["TOY_ATTEMPTS"]), fault) == 1


def _go_wrong(fault: str) -> None:
    if fault == "raises" or (fault == "flaky" and _is_first(fault)):
        raise RuntimeError("the toy broke\nand said so on two lines")
    if fault == "exits":
        raise SystemExit(3)
    if fault == "leaves":
        print("the toy leaves", flush=True)
        os._exit(3)
    if fault in ("kills", "crashes"):
        os.kill(os.getpid(), signal.SIGKILL if fault == "kills" else signal.SIGSEGV)
    if fault == "killed" and _is_first(fault):
        os.kill(os.getpid(), signal.SIGKILL)
    while fault == "hangs":
        ctypes.PyDLL(None).pause()  # with the lock of the interpreter, as in a library: no thread of it runs
    if fault == "exhausts" and _is_first(fault):
        (Path(os.environ["TOY_CGROUP"]) / "cgroup.procs").write_text(str(os.getpid()))
        bytearray(2**28)
