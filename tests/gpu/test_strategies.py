"""Each strategy on one card: NCCL, its losses, its checkpoint, its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sweeps.training.distributed.strategy import Device
from tests.gpu.fits import NEEDS_GPU, SHARDED, STRATEGIES, digits
from trainables import digits_mlp

pytestmark = [*NEEDS_GPU]
TOLERANCE = 0.05
"""Share by which the last loss in fp16 may differ from that in fp32: DeepSpeed skips its first steps, until
the scale of the loss fits."""


class Backend(pl.Callback):
    """Notes what the workers talk by."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def on_train_epoch_start(self, *_: Any) -> None:
        self.names.add(torch.distributed.get_backend() if torch.distributed.is_initialized() else "none")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_losses_in_fp16_are_those_of_plain_fp32(strategy: str) -> None:
    _, exact = digits(precision="32")
    _, halved = digits(precision="16-mixed", strategy=strategy)
    assert halved[-1].metrics["val_loss"] == pytest.approx(exact[-1].metrics["val_loss"], rel=TOLERANCE)


@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2", "fsdp"])
def test_the_losses_in_bf16_are_those_of_plain_fp32(strategy: str) -> None:
    _, exact = digits(precision="32")
    _, halved = digits(precision="bf16-mixed", strategy=strategy)
    assert halved[-1].metrics["val_loss"] == pytest.approx(exact[-1].metrics["val_loss"], rel=0.1)


@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2", "fsdp"])
def test_workers_talk_by_nccl(strategy: str) -> None:
    backend = Backend()
    digits(backend, precision="16-mixed", strategy=strategy, max_epochs=1)
    assert backend.names == {"nccl"}


@pytest.mark.parametrize("strategy", SHARDED)
def test_a_checkpoint_of_shards_is_read_again(strategy: str, tmp_path: Path) -> None:
    _, alone = digits(precision="16-mixed", strategy=strategy)
    first, _ = digits(precision="16-mixed", strategy=strategy, until=lambda epoch: epoch.epoch < 1)
    first.save(tmp_path)
    _, rest = digits(precision="16-mixed", strategy=strategy, checkpoint=tmp_path)
    for ours, theirs in zip(rest, alone[1:], strict=True):
        assert ours.metrics["val_loss"] == pytest.approx(theirs.metrics["val_loss"], rel=5e-3)


# Under these Lightning shuffles whole batches, so that smaller ones have other rows together.
@pytest.mark.parametrize(
    ("strategy", "tolerance"), [("single", 1e-3), ("deepspeed_stage_2", 0.05), ("fsdp", 0.05)]
)
def test_micro_batches_train_as_the_whole_batch_does(strategy: str, tolerance: float) -> None:
    params = digits_mlp.Params(lr=0.02, batch_size=48)  # 25 whole batches
    _, whole = digits(precision="32", strategy=strategy, params=params)
    _, parts = digits(precision="32", strategy=strategy, params=params, micro_batch=16)
    assert parts[-1].metrics["val_loss"] == pytest.approx(whole[-1].metrics["val_loss"], rel=tolerance)


def test_the_card_is_known() -> None:
    device = Device.here()
    assert device.memory_bytes == torch.cuda.get_device_properties(0).total_memory
    assert device.has_bf16 == (torch.cuda.get_device_capability(0) >= (8, 0))
