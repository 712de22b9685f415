"""`--compile`: the same training, compiled once for trials that differ in what is not compiled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sweeps.common.errors import CannotTrain
from sweeps.training.config import FitConfig
from sweeps.training.distributed import strategy as training_strategy
from sweeps.training.runs.fit_loop import Fit
from tests.conftest import ROOT
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp
from trainables._shared.classifier import SgdClassifier

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")),
    reason="no C++ compiler for PyTorch to compile with",
)


def trained(*, is_compiled: bool, **hyperparameters: Any) -> Fit:
    config = FitConfig(
        max_epochs=2, metric="val_acc", mode="max", compile=is_compiled, steps_per_epoch=4, strategy="single"
    )
    fit = Fit(as_trainable(digits_mlp), digits_mlp.Params(batch_size=100, **hyperparameters), config)
    run_through(fit)
    return fit


def counted(name: str) -> int:
    from torch._dynamo.utils import counters

    return int(counters["inductor"][name])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(training_strategy.CACHE_VARIABLE, str(tmp_path))
    return tmp_path


@needs_compiler
@pytest.mark.long
def test_the_training_is_the_same_and_the_weights_keep_their_names(cache: Path) -> None:
    plain, compiled = trained(is_compiled=False), trained(is_compiled=True)
    assert counted("fxgraph_cache_miss") > 0  # it was compiled
    assert list(compiled.best.weights) == list(plain.best.weights)
    for name, weight in plain.best.weights.items():
        torch.testing.assert_close(compiled.best.weights[name], weight, rtol=1e-4, atol=1e-5)


class WithoutForward(SgdClassifier):
    """Its steps call the net, and it has no forward of its own."""

    forward = pl.LightningModule.forward  # type: ignore[assignment]

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])


@needs_compiler
@pytest.mark.long
def test_a_model_without_forward_is_compiled_by_its_parts(cache: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    model = WithoutForward(net, lr=0.1, momentum=0.0, weight_decay=0.0)
    names, inputs = list(model.state_dict()), torch.randn(4, 8)
    before, missed = net(inputs), counted("fxgraph_cache_miss")
    training_strategy.compile_model(model)
    torch.testing.assert_close(model.net(inputs), before)
    assert counted("fxgraph_cache_miss") > missed
    assert list(model.state_dict()) == names


@needs_compiler
@pytest.mark.long
def test_trials_that_differ_in_lr_compile_nothing_anew(cache: Path) -> None:
    trained(is_compiled=True, lr=0.1, hidden=24)
    missed, hit = counted("fxgraph_cache_miss"), counted("fxgraph_cache_hit")
    trained(is_compiled=True, lr=0.01, momentum=0.5, hidden=24)
    assert counted("fxgraph_cache_miss") == missed
    assert counted("fxgraph_cache_hit") > hit


@needs_compiler
@pytest.mark.long
def test_models_of_more_shapes_than_pytorch_keeps_are_all_compiled(cache: Path) -> None:
    for hidden in range(8, 18):
        missed = counted("fxgraph_cache_miss")
        trained(is_compiled=True, hidden=hidden)
        assert counted("fxgraph_cache_miss") > missed, hidden


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp_full", "deepspeed_stage_3"])
def test_a_strategy_that_shards_the_weights_is_refused(strategy: str) -> None:
    with pytest.raises(CannotTrain, match=f"compile: strategy {strategy} shards the weights"):
        training_strategy.check_compile(strategy)


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CannotTrain, match=r"needs a compiler .* and there is none: apt-get install g"):
        training_strategy.check_compile("single")


COUNTING = """
import json, os
from pathlib import Path
from trainables.digits_mlp import METRIC, MODE, Params, build_data
from trainables._shared.classifier import SgdClassifier
import torch

class Counting(SgdClassifier):
    def on_fit_end(self):
        from torch._dynamo.utils import counters
        found = {name: dict(counters[name]) for name in ("stats", "recompiles", "inductor", "unimplemented")}
        Path(f"counted-{self.global_rank}.json").write_text(json.dumps(found))

def build_model(params):
    net = torch.nn.Sequential(torch.nn.Linear(64, params.hidden), torch.nn.Linear(params.hidden, 10))
    return Counting(net, lr=params.lr, momentum=0.0, weight_decay=0.0)
"""


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2"])
def test_workers_compile_the_model_and_not_their_steps(strategy: str, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    flags = ("--compile", "--devices", "2", "--threads", "1", "--max-epochs", "2", "--strategy", strategy)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "sweeps.fit", "counting", *flags]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "recompile_limit" not in done.stderr
    for rank in range(2):
        found = json.loads((tmp_path / f"counted-{rank}.json").read_text())
        # Of training and validation batches, whole and of fewer rows: a step would be compiled in each.
        assert 1 <= found["stats"]["unique_graphs"] <= 6
