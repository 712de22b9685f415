"""What is taken from PyTorch beyond its documentation: each failure names PyTorch's version."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from sweeps.training import torch_internals
from tests.support.versions import relied_on

_distributed: Any = torch.distributed


@pytest.fixture
def group() -> Iterator[None]:
    """One process."""
    torch.distributed.init_process_group("gloo", store=_distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_shards_of_fsdp_are_freed(group: None) -> None:
    with relied_on("torch"):
        model = FullyShardedDataParallel(
            nn.Linear(64, 64), device_id=torch.device("cpu"), use_orig_params=True
        )
        model(torch.ones(1, 64)).sum().backward()
        left = [weakref.ref(weight) for weight in model.parameters()]
        torch_internals.free_shards(model)
        del model
        gc.collect()
        assert [weight() for weight in left] == [None] * len(left)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_allocations_are_recorded(tmp_path: Path) -> None:
    with relied_on("torch"):
        with torch_internals.recorded_allocations(tmp_path / "it.pickle"):
            torch.ones(10, device="cuda")
        assert (tmp_path / "it.pickle").stat().st_size > 0
