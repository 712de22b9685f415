"""What is taken from Lightning beyond its documentation: each failure names Lightning's version."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from sweeps.training import lightning_internals
from sweeps.training.lightning_internals import NEXT_BATCH, EpochLoop, FsdpStrategy
from tests.support.versions import relied_on

STEPS = 3
END_OF_STEP = "the model's last hook of a step"
distributed: Any = torch.distributed  # its stubs lack HashStore


class Toy(pl.LightningModule):
    """Notes who asks for an attribute of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.asked_by_lightning: list[bool] = []

    def note(self) -> None:
        self.asked_by_lightning.append(lightning_internals.is_called_by_lightning())

    on_fit_start = note

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.layer(batch[0]).mean()

    def on_train_batch_end(self, *_: Any) -> None:
        if isinstance(self.trainer.profiler, Actions):
            self.trainer.profiler.seen.append(END_OF_STEP)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


class Actions(Profiler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def start(self, action_name: str) -> None:
        self.seen.append(action_name)

    def stop(self, action_name: str) -> None: ...


class Loader(DataLoader[Any]):
    """Has a position."""

    def state_dict(self) -> dict[str, Any]:
        return {"batch": 7}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def fitted(**options: Any) -> tuple[pl.Trainer, Toy]:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer, model = pl.Trainer(max_epochs=1, accelerator="cpu", **quiet, **options), Toy()
    trainer.fit_loop.epoch_loop = EpochLoop(trainer)
    trainer.fit(model, Loader(TensorDataset(torch.ones(STEPS, 2)), batch_size=1))
    return trainer, model


HOOKS_OF_STEPS = (
    "on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_train_batch_end", "on_validation_batch_start",
)  # fmt: skip


class Notes(pl.Callback):
    """Notes each hook of a step: under which name a model would log in it, and what it is given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        for hook in HOOKS_OF_STEPS:
            setattr(self, hook, partial(self.note, hook))

    def note(self, hook: str, trainer: pl.Trainer, model: pl.LightningModule, *given: Any) -> None:
        self.seen.append((hook, model._current_fx_name, shown(given)))


def shown(given: Any) -> Any:
    """What can be compared of something that a hook is given."""
    if isinstance(given, torch.Tensor):
        return given.tolist()
    if isinstance(given, list | tuple):
        return [type(given).__name__, *map(shown, given)]
    if isinstance(given, dict):
        return {name: shown(each) for name, each in given.items()}
    return given if isinstance(given, int | float | str | None) else type(given).__name__


class Net(pl.LightningModule):
    """Logs in its steps, and has a schedule by steps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.Linear(3, 1))

    def loss(self, batch: Any) -> torch.Tensor:
        inputs = batch["x"] if isinstance(batch, dict) else batch[0]
        return self.layer(inputs).square().mean()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        by_epoch = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}, by_epoch]


class OfBatchAlone(Net):
    def training_step(self, batch: Any) -> Any:  # type: ignore[override]
        return {"loss": self.loss(batch), "rows": 2}


class SkipsSteps(Net):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.loss(batch) if batch_idx % 2 else None


class LogsInHooks(Net):
    def on_train_batch_end(self, *_: Any) -> None:
        self.log("after", 1.5)

    def on_after_backward(self) -> None:
        self.log("gradient", self.layer[0].weight.grad.norm())


class StepsItself(Net):
    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, closure: Any = None) -> None:
        super().optimizer_step(epoch, batch_idx, optimizer, closure)


class EndsEarly(Net):
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> Any:
        return -1 if batch_idx == 3 else None


class MovesItself(Net):
    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [2 * batch[0]]


class ByLbfgs(Net):
    def configure_optimizers(self) -> Any:
        return torch.optim.LBFGS(self.parameters(), 0.1, max_iter=3)


class Named(TensorDataset):
    def __getitem__(self, index: int) -> Any:
        return {"x": self.tensors[0][index]}


class Gaps(DataLoader[Any]):
    """Every third batch is missing."""

    def __iter__(self) -> Any:
        for index, batch in enumerate(super().__iter__()):
            yield None if index % 3 == 2 else batch


def trained(loop: type[_TrainingEpochLoop], net: type[Net], data: Any, **options: Any) -> dict[str, Any]:
    """All that two epochs leave behind: hooks, metrics, counters, weights, state of the optimizer."""
    notes, model = Notes(), net()
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", callbacks=[notes, pl.Callback()], enable_checkpointing=False,
        log_every_n_steps=2, **quiet, **options,
    )  # fmt: skip
    trainer.fit_loop.epoch_loop = loop(trainer)
    # Of the object alone, as some projects do.
    model.on_before_zero_grad = lambda *given: notes.seen.append(shown(given))  # type: ignore[method-assign]
    torch.manual_seed(1)
    trainer.fit(model, data, data)
    left = {
        "notes": notes.seen,
        "metrics": [trainer.callback_metrics, trainer.logged_metrics, trainer.progress_bar_metrics],
        "loops": trainer.fit_loop.state_dict(),
        "weights": dict(model.state_dict()),
        "optimizer": trainer.optimizers[0].state_dict(),
        "schedules": [each.scheduler.state_dict() for each in trainer.lr_scheduler_configs],
    }
    return {part: shown(each) for part, each in left.items()}


ROWS = torch.arange(14.0).reshape(7, 2) / 10
LISTS = DataLoader(TensorDataset(ROWS), batch_size=1)
USUAL: dict[str, Any] = {
    "as most": (Net, LISTS, {}),
    "a batch that is a dict": (Net, DataLoader(Named(ROWS), batch_size=2), {}),
    "a step that takes the batch alone and returns a dict": (OfBatchAlone, LISTS, {}),
    "steps that are skipped": (SkipsSteps, LISTS, {}),
    "logged in hooks": (LogsInHooks, LISTS, {}),
    "clipped gradients": (Net, LISTS, {"gradient_clip_val": 0.01}),
    "an optimizer that asks for the loss again": (ByLbfgs, LISTS, {}),
    "batches that are missing": (Net, Gaps(TensorDataset(ROWS), batch_size=1), {"limit_val_batches": 2}),
    "half precision": (Net, LISTS, {"precision": "bf16-mixed"}),
    "validated inside an epoch": (Net, LISTS, {"val_check_interval": 2}),
    "a short epoch": (Net, LISTS, {"limit_train_batches": 3, "check_val_every_n_epoch": 2}),
}
OTHERS: dict[str, Any] = {
    "accumulated gradients": (Net, LISTS, {"accumulate_grad_batches": 2}),
    "a hook for the step": (StepsItself, LISTS, {}),
    "a hook that ends the epoch": (EndsEarly, LISTS, {}),
    "a hook for the batch": (MovesItself, LISTS, {}),
}


@pytest.mark.parametrize("case", [*USUAL, *OTHERS])
def test_a_step_trains_logs_and_counts_as_lightnings_own(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with relied_on("lightning"):
        net, data, options = (USUAL | OTHERS)[case]
        theirs = trained(_TrainingEpochLoop, net, data, **options)
        own, by_lightning = _TrainingEpochLoop.advance, []

        def advance(loop: _TrainingEpochLoop, data_fetcher: Any) -> None:
            by_lightning.append(loop)
            own(loop, data_fetcher)

        monkeypatch.setattr(_TrainingEpochLoop, "advance", advance)
        ours = trained(EpochLoop, net, data, **options)
        assert bool(by_lightning) == (case in OTHERS)
        assert len(theirs["notes"]) > 10
        for part, expected in theirs.items():
            assert ours[part] == expected, part


def test_a_call_of_lightning_is_told_from_that_of_a_model() -> None:
    with relied_on("lightning"):
        _, model = fitted(enable_checkpointing=False)
        model.note()
        assert model.asked_by_lightning == [True, False]


def test_each_part_of_a_step_is_an_action_of_the_profiler(tmp_path: Path) -> None:
    with relied_on("lightning"):
        actions = Actions()
        fitted(profiler=actions, enable_checkpointing=True, default_root_dir=tmp_path)
        found = {lightning_internals.part_of_step(action) for action in actions.seen}
        assert found == {None, "data_wait", "transfer", "forward", "backward", "step", "checkpoint"}
        parts = [lightning_internals.part_of_step(action) for action in actions.seen]
        assert parts.count("forward") == parts.count("backward") == parts.count("step") == STEPS


def test_the_fetch_of_a_batch_lies_between_two_steps() -> None:
    with relied_on("lightning"):
        actions = Actions()
        fitted(profiler=actions, enable_checkpointing=False)
        marks = [each for each in actions.seen if each in (NEXT_BATCH, END_OF_STEP)]
        assert marks == [NEXT_BATCH, END_OF_STEP] * STEPS


def test_a_checkpoint_holds_the_positions_of_the_loaders_and_counts_batches(tmp_path: Path) -> None:
    class Saves(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
            trainer.save_checkpoint(tmp_path / "it.ckpt")

    with relied_on("lightning"):
        fitted(callbacks=[Saves()], enable_checkpointing=False, limit_train_batches=2)
        checkpoint = torch.load(tmp_path / "it.ckpt", weights_only=False)
        assert lightning_internals.loader_states(checkpoint) == [{"batch": 7}]
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        assert progress["current"]["ready"] == 2
        lightning_internals.count_batches_anew(checkpoint, before=1, now=4)
        assert progress["current"]["ready"] == progress["total"]["ready"] == 8


def test_deepspeed_can_be_started_without_a_gpu() -> None:
    with relied_on("lightning"):
        called: list[None] = []

        class Recorded(DeepSpeedStrategy):
            def __init__(self) -> None: ...

            def _init_deepspeed_distributed(self) -> None:
                called.append(None)

        assert hasattr(DeepSpeedStrategy, "_init_deepspeed_distributed")
        lightning_internals.init_deepspeed(Recorded())
        assert called == [None]


def test_fsdp_wraps_a_model_on_a_cpu() -> None:
    with relied_on("lightning"):
        strategy = FsdpStrategy(parallel_devices=[torch.device("cpu")])
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        )
        try:
            assert isinstance(strategy._setup_model(nn.Linear(2, 2)), FullyShardedDataParallel)
        finally:
            torch.distributed.destroy_process_group()
