"""A process trains one trial after another: the memory of an ended one is given back by each strategy."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

QUICK = ("deepspeed_stage_3", "whole")
"""The one that is part of `make check`; the others take minutes together."""
STRATEGIES = (
    "single", "ddp", "fsdp", "fsdp_full", "deepspeed_stage_1", "deepspeed_stage_2",
    "deepspeed_stage_2_offload", "deepspeed_stage_3", "deepspeed_stage_3_offload",
)  # fmt: skip
TRAIN = """
import gc, sys
from types import SimpleNamespace
import torch
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp
from trainables._shared.classifier import SgdClassifier

LARGE = 64 * 4096
strategy, how = sys.argv[1:]

def large():
    gc.collect()
    tensors = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
    return [tuple(each.shape) for each in tensors if each.numel() >= LARGE]

class Breaking(SgdClassifier):
    def training_step(self, batch, index):
        hidden = self.net[:2](batch[0])
        if index == 2 and how == "backward":
            hidden.register_hook(broken)  # the gradients of what comes behind it are there by then
        loss = torch.nn.functional.cross_entropy(self.net[2:](hidden), batch[1])
        if index == 2 and how == "forward":
            raise ArithmeticError
        return loss

def broken(gradient):
    raise ArithmeticError

def build_model(params):
    net = digits_mlp.build_model(params).net
    return Breaking(net, lr=params.lr, momentum=params.momentum, weight_decay=0.0)

def train():
    fit = Fit(as_trainable(trainable), digits_mlp.Params(hidden=4096), config)
    try:
        run_through(fit)
        assert how == "whole"
    except ArithmeticError:
        assert how != "whole"
    assert large(), "the weights are that large"
    fit.release()

trainable = SimpleNamespace(build_model=build_model, build_data=digits_mlp.build_data)
config = FitConfig(metric="val_acc", mode="max", max_epochs=1, strategy=strategy, precision="bf16-mixed")
for trial in range(2):
    train()
    assert not large(), f"of trial {trial}: {large()}"
print("all is free")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "ends"),
    [
        pytest.param(*each, marks=() if each == QUICK else pytest.mark.long)
        for each in itertools.product(STRATEGIES, ("whole", "forward", "backward"))
    ],
)
def test_nothing_of_an_ended_run_stays_in_memory(strategy: str, ends: str) -> None:
    """A whole one, and one that breaks off in its third step: before the backward, and inside it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAIN, strategy, ends],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is free" in done.stdout
    assert "Traceback" not in done.stderr, done.stderr
