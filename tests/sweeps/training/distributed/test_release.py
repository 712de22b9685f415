"""A process trains one trial after another: the memory of an ended one is given back by each strategy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

QUICK = "deepspeed_stage_3"
"""The one that is part of `make test`; the others are slow together."""
STRATEGIES = (
    "single", "ddp", "fsdp", "fsdp_full", "deepspeed_stage_1", "deepspeed_stage_2",
    "deepspeed_stage_2_offload", QUICK, "deepspeed_stage_3_offload",
)  # fmt: skip
TRAIN = """
import gc, sys
import torch
from sweeps.training.config import FitConfig
from sweeps.training.fit_loop import Fit
from trainables.digits_mlp import METRIC, MODE, Params
from trainables import digits_mlp

LARGE = 64 * 4096

def large():
    gc.collect()
    tensors = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
    return [tuple(each.shape) for each in tensors if each.numel() >= LARGE]

config = FitConfig(metric=METRIC, mode=MODE, max_epochs=1, strategy=sys.argv[1], precision="bf16-mixed")
for trial in range(2):
    fit = Fit(digits_mlp, Params(hidden=4096), config)
    fit.run(lambda epoch: True)
    assert large(), "the weights are that large"
    fit.release()
    del fit
    assert not large(), f"of trial {trial}: {large()}"
print("all is free")
"""


@pytest.mark.parametrize(
    "strategy", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in STRATEGIES]
)
def test_nothing_of_an_ended_run_stays_in_memory(strategy: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAIN, strategy],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is free" in done.stdout
