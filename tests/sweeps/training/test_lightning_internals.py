"""What is taken from Lightning beyond its documentation: each failure names Lightning's version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from sweeps.training import lightning_internals
from sweeps.training.lightning_internals import NEXT_BATCH, FsdpStrategy
from tests.support.versions import relied_on

STEPS = 3
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
    trainer.fit(model, Loader(TensorDataset(torch.ones(STEPS, 2)), batch_size=1))
    return trainer, model


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
        marks = [each for each in actions.seen if each == NEXT_BATCH or "on_train_batch_end" in each]
        assert [each == NEXT_BATCH for each in marks[:1]] == [True]
        assert marks.count(NEXT_BATCH) >= STEPS
        ends = [index for index, each in enumerate(marks) if "[LightningModule]" in each]
        assert all(marks[end + 1 : end + 2] in ([NEXT_BATCH], []) for end in ends)


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
