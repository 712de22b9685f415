"""Two processes on the CPU, by every strategy: the same training as one, checkpoints in shards, resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.fit import main
from tests.conftest import ROOT

SHARING = [
    "ddp",
    "fsdp",
    "fsdp_full",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_3",
]
QUICK = "deepspeed_stage_2"
"""The one that is part of `make check`; the others take minutes together."""
EACH = [name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in SHARING]
METRICS = ("epoch", "train_loss", "val_loss", "val_acc")
TOLERANCE = 1e-5
"""Of a loss and of a weight: two halves of a batch are summed in another order than the whole."""

# Each epoch is one batch of all rows: in whatever order, the workers together see what one would.
# Adam, since its state is what ZeRO shards. It dies once before its third epoch, where `die` says so.
MODEL = """
import os
from pathlib import Path
import torch
from trainables.digits_mlp import METRIC, MODE, Params, build_data, describe_data
from trainables._shared.classifier import Classifier

class Dying(Classifier):
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def on_train_epoch_start(self):
        if self.current_epoch == 2 and os.environ.get("DIE"):
            os._exit(9)

def build_model(params):
    hidden = torch.nn.Linear(64, params.hidden), torch.nn.ReLU()
    return Dying(torch.nn.Sequential(*hidden, torch.nn.Linear(params.hidden, 10)))
"""

# SGD, since Adam would hide that gradients are too small, and a rate that falls with each step. Rows come
# in the same order by every strategy, so a step has the same rows however many micro-batches make it up.
STEPS = """
import torch
from torch.utils.data import DataLoader, DistributedSampler
from trainables._shared.classifier import Classifier
from trainables._shared.digits import Digits
from trainables.digits_mlp import METRIC, MODE, Params

class InOrder(Digits):
    def train_dataloader(self):
        rows, trainer = super().train_dataloader().dataset, self.trainer
        mine = DistributedSampler(rows, trainer.world_size, trainer.global_rank, shuffle=False)
        return DataLoader(rows, self.batch_size, sampler=mine)

class Counting(Classifier):
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_validation_epoch_end(self):
        super().on_validation_epoch_end()
        engine = self.trainer.strategy.model
        self.log("steps", float(self.global_step))
        self.log("steps_of_engine", float(getattr(engine, "global_steps", self.global_step)))

def build_model(params):
    return Counting(torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)))

def build_data(params):
    return InOrder(params.batch_size)
"""

UNUSED = """
import torch
from trainables._shared.classifier import SgdClassifier
from trainables.digits_mlp import METRIC, MODE, Params, build_data

class Spared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(64, 10), torch.nn.Linear(64, 10)

    def forward(self, images):
        return self.used(images)

def build_model(params):
    return SgdClassifier(Spared(), lr=0.05, momentum=0.9, weight_decay=0.0)
"""

# The true network, on images of noise.
VIT = """
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from trainables import fashion_vit
from trainables.fashion_vit import METRIC, MODE, Params

def build_model(params):
    model = fashion_vit.build_model(params)
    make = model.configure_optimizers
    def configured():
        made = make()
        fused = " ".join(str(group["fused"]) for group in made["optimizer"].param_groups)
        print(f"fused: {fused}", flush=True)  # as one text: each of two workers prints it
        return made
    model.configure_optimizers = configured
    return model

def build_data(params):
    images, labels = torch.rand(16, 1, 28, 28), torch.arange(16) % 10
    loader = DataLoader(TensorDataset(images, labels), params.batch_size)
    data = pl.LightningDataModule.from_datasets()
    data.batch_size, data.train_dataloader, data.val_dataloader = 16, lambda: loader, lambda: loader
    return data
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, model in {
        "whole_batches": MODEL,
        "steps": STEPS,
        "unused": UNUSED,
        "vit": VIT,
    }.items():
        (folder / f"{name}.py").write_text(model)
    return folder


def fit(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sweeps.fit", *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def fit_here(project: Path, *arguments: str) -> None:
    """The same by one worker, which is this process."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(project)
        patched.syspath_prepend(str(ROOT))
        assert main(arguments) == 0
    torch.set_num_threads(threads)


WHOLE = (
    *("whole_batches", "--max-epochs", "4", "--batch-size", "1200", "--seed", "1"),
    *("--checkpoint-epochs", "1", "--threads", "1"),
)


def train(project: Path, strategy: str, name: str, *more: str, **environment: str) -> Any:
    how = ("--strategy", strategy, "--devices", "2", "--name", name)
    return fit(project, *WHOLE, *how, *more, **environment)


def epochs(run: Path) -> list[dict[str, Any]]:
    lines = (run / "epochs.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k in METRICS} for line in lines]


def weights(run: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = torch.load(run / "best" / "weights.pt", weights_only=True)
    return loaded


@pytest.fixture(scope="module")
def alone(project: Path) -> Path:
    """The run that the others are compared with: one process."""
    fit_here(project, *WHOLE, "--strategy", "single", "--name", "alone")
    return project / "results" / "alone"


def assert_alike(run: Path, expected: Path) -> None:
    found, wanted = epochs(run), epochs(expected)
    assert [epoch["epoch"] for epoch in found] == [1, 2, 3, 4]
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, abs=TOLERANCE)
    one_by_one = weights(run), weights(expected)
    assert one_by_one[0].keys() == one_by_one[1].keys()
    for name, weight in one_by_one[0].items():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, one_by_one[1][name], atol=TOLERANCE, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", EACH)
def test_two_workers_train_as_one_and_leave_whole_weights(strategy: str, project: Path, alone: Path) -> None:
    done = train(project, strategy, f"two-{strategy}")
    assert done.returncode == 0, done.stderr
    assert f"strategy   {strategy} (as asked), 32-true" in done.stdout
    assert done.stdout.count("epoch   1/4") == 1, "the first worker speaks, and no other"
    assert done.stderr == ""
    assert_alike(project / "results" / f"two-{strategy}", alone)


@pytest.mark.long
@pytest.mark.parametrize("strategy", EACH)
def test_a_killed_run_goes_on_from_its_shards(strategy: str, project: Path, alone: Path) -> None:
    died = train(project, strategy, f"dead-{strategy}", DIE="1")
    assert died.returncode == 9
    run = project / "results" / f"dead-{strategy}"
    assert [epoch["epoch"] for epoch in epochs(run)] == [1, 2]
    assert not (run / "best").exists()
    resumed = fit(project, "--resume", f"results/dead-{strategy}")
    assert resumed.returncode == 0, resumed.stderr
    assert "epochs     4, resumed at epoch 3" in resumed.stdout
    assert_alike(run, alone)


@pytest.mark.long
def test_shards_of_two_are_not_read_by_one(project: Path) -> None:
    died = train(project, QUICK, "for-two", DIE="1")
    assert died.returncode == 9
    settings = project / "results" / "for-two" / "fit.yaml"
    settings.write_text(settings.read_text().replace("devices: 2", "devices: 1"))
    done = fit(project, "--resume", "results/for-two")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: the checkpoint is of strategy {QUICK} with 2 workers, and strategy {QUICK} with 1 worker "
        "can't read it"
    )


@pytest.mark.long
def test_a_model_that_spares_weights_trains_by_the_strategy_that_the_error_names(project: Path) -> None:
    settings = ("unused", "--max-epochs", "2", "--devices", "2", "--threads", "1")
    failed = fit(project, *settings, "--strategy", "ddp")
    assert failed.returncode != 0
    assert "ddp_find_unused_parameters_true" in failed.stderr
    done = fit(project, *settings, "--strategy", "ddp_find_unused_parameters_true")
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_bf16_by_zero_exports_fp32(project: Path) -> None:
    done = train(project, QUICK, "bf16", "--precision", "bf16-mixed")
    assert done.returncode == 0, done.stderr
    found = weights(project / "results" / "bf16")
    assert {weight.dtype for weight in found.values()} == {torch.float32}
    rounded = [torch.equal(weight, weight.bfloat16().float()) for weight in found.values()]
    assert not all(rounded), "the optimizer's own weights, not their bf16 copies"


def take_steps(project: Path, strategy: str, batch: int, micro_batch: int, devices: int = 1) -> Any:
    name = f"steps-{strategy}-{batch}-{micro_batch}-{devices}"
    run = project / "results" / name
    if not run.exists():
        sizes = ("--batch-size", str(batch), "--micro-batch", str(micro_batch), "--devices", str(devices))
        how = ("--strategy", strategy, "--max-epochs", "3", "--seed", "1", "--threads", "1", "--name", name)
        if strategy == "single":
            fit_here(project, "steps", *sizes, *how)
        else:
            done = fit(project, "steps", *sizes, *how)
            assert done.returncode == 0, done.stderr
    lines = map(json.loads, (run / "epochs.jsonl").read_text().splitlines())
    return [{name: line[name] for name in (*METRICS, "steps", "steps_of_engine")} for line in lines]


def assert_same_steps(found: Any, expected: Any, steps_per_epoch: int) -> None:
    for epoch, (one, other) in enumerate(zip(found, expected, strict=True), 1):
        assert one["steps"] == one["steps_of_engine"] == steps_per_epoch * epoch
        assert one == pytest.approx(other, abs=TOLERANCE)


ALONE = [*EACH, pytest.param(f"{QUICK}_offload", marks=pytest.mark.long)]


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["single", *ALONE])
def test_micro_batches_make_up_the_batch(strategy: str, project: Path) -> None:
    whole = take_steps(project, "single", batch=300, micro_batch=300)
    assert_same_steps(take_steps(project, strategy, batch=300, micro_batch=60), whole, steps_per_epoch=4)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", *ALONE])
def test_the_last_step_of_an_epoch_may_have_fewer_micro_batches(strategy: str, project: Path) -> None:
    """12 of them, 5 to a step: two whole steps, and one of the last two, as of the last batch of 200 rows."""
    alone = take_steps(project, "single", batch=500, micro_batch=500)
    found = take_steps(project, strategy, batch=500, micro_batch=100)
    assert_same_steps(found, alone, steps_per_epoch=3)


@pytest.mark.long
@pytest.mark.parametrize("strategy", SHARING)
def test_two_workers_share_micro_batches(strategy: str, project: Path) -> None:
    alone = take_steps(project, "single", batch=500, micro_batch=100)
    found = take_steps(project, strategy, batch=500, micro_batch=50, devices=2)
    assert_same_steps(found, alone, steps_per_epoch=3)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fsdp", pytest.param("fsdp_full", marks=pytest.mark.long)])
def test_the_transformers_shards_decay_and_are_stepped_one_by_one(strategy: str, project: Path) -> None:
    sizes = ("--depth", "1", "--width", "8", "--batch-size", "16", "--warmup-steps", "0")
    # One step, of which all decays that may, and Adam moves each weight by 0.01.
    decay = ("--lr", "0.01", "--weight-decay", "100", "--max-epochs", "1")
    how = ("--strategy", strategy, "--devices", "2", "--threads", "1", "--name", f"decay-{strategy}")
    done = fit(project, "vit", *sizes, *decay, *how)
    assert done.returncode == 0, done.stderr
    assert "fused: False False" in done.stdout  # in fp16 a fused one would not skip another worker's overflow
    for name, weight in weights(project / "results" / f"decay-{strategy}").items():
        if weight.dim() > 1:
            assert weight.abs().max() < 0.011, f"{name} has not decayed"
        elif name.endswith("weight"):  # of a norm: it is 1 at first
            assert weight.min() > 0.98, f"{name} has decayed"
