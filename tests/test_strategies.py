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

ROOT = Path(__file__).resolve().parents[1]
SHARING = [
    "ddp",
    "fsdp",
    "fsdp_full",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_3",
]
QUICK = "deepspeed_stage_2"
"""The one that is part of `make test`; the others are slow together."""
EACH = [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SHARING]
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
from trainables._classifier import Classifier

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


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "whole_batches.py").write_text(MODEL)
    return folder


def fit(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "training.fit", *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def train(project: Path, strategy: str, name: str, *more: str, devices: int = 2, **environment: str) -> Any:
    settings = ("--max-epochs", "4", "--batch-size", "1200", "--seed", "1", "--checkpoint-epochs", "1")
    how = ("--strategy", strategy, "--devices", str(devices), "--threads", "1", "--name", name)
    return fit(project, "whole_batches", *settings, *how, *more, **environment)


def epochs(run: Path) -> list[dict[str, Any]]:
    lines = (run / "epochs.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k in METRICS} for line in lines]


def weights(run: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = torch.load(run / "best" / "weights.pt", weights_only=True)
    return loaded


@pytest.fixture(scope="module")
def alone(project: Path) -> Path:
    """The run that the others are compared with: one process."""
    done = train(project, "single", "alone", devices=1)
    assert done.returncode == 0, done.stderr
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


@pytest.mark.parametrize("strategy", EACH)
def test_two_workers_train_as_one_and_leave_whole_weights(strategy: str, project: Path, alone: Path) -> None:
    done = train(project, strategy, f"two-{strategy}")
    assert done.returncode == 0, done.stderr
    assert f"how        {strategy} (as asked), 32-true" in done.stdout
    assert done.stdout.count("epoch   1/4") == 1, "the first worker speaks, and no other"
    assert done.stderr == ""
    assert_alike(project / "results" / f"two-{strategy}", alone)


@pytest.mark.parametrize("strategy", EACH)
def test_a_killed_run_goes_on_from_its_shards(strategy: str, project: Path, alone: Path) -> None:
    died = train(project, strategy, f"dead-{strategy}", DIE="1")
    assert died.returncode == 9
    run = project / "results" / f"dead-{strategy}"
    assert [epoch["epoch"] for epoch in epochs(run)] == [1, 2]
    assert not (run / "best").exists()
    resumed = fit(project, "--resume", f"results/dead-{strategy}")
    assert resumed.returncode == 0, resumed.stderr
    assert "epochs     4, from 3 on" in resumed.stdout
    assert_alike(run, alone)


@pytest.mark.slow
def test_shards_of_two_are_not_read_by_one(project: Path) -> None:
    died = train(project, QUICK, "for-two", DIE="1")
    assert died.returncode == 9
    settings = project / "results" / "for-two" / "fit.yaml"
    settings.write_text(settings.read_text().replace("devices: 2", "devices: 1"))
    done = fit(project, "--resume", "results/for-two")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: the checkpoint is of strategy {QUICK} with 2 worker(s), each with its own part of it; "
        f"strategy {QUICK} with 1 can't read that"
    )


def test_a_batch_that_two_can_not_share_is_refused(project: Path) -> None:
    done = fit(project, "whole_batches", "--batch-size", "33", "--devices", "2", "--name", "odd")
    assert done.returncode == 2
    assert "error: batch_size 33: 2 workers share it, so it must be a multiple of 2" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_bf16_by_zero_exports_fp32(project: Path) -> None:
    done = train(project, QUICK, "bf16", "--precision", "bf16-mixed")
    assert done.returncode == 0, done.stderr
    found = weights(project / "results" / "bf16")
    assert {weight.dtype for weight in found.values()} == {torch.float32}
    rounded = [torch.equal(weight, weight.bfloat16().float()) for weight in found.values()]
    assert not all(rounded), "the optimizer's own weights, not their bf16 copies"
