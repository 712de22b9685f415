"""Worker groups over NCCL: of one worker on any GPU, of two where there are two GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sweeps.record.record import Record
from sweeps.training.distributed import cluster_environment
from tests.conftest import Command
from tests.gpu.fits import NEEDS_GPU

pytestmark = [*NEEDS_GPU]
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA GPUs")
HERE = "127.0.0.1"


def test_a_group_is_formed() -> None:
    store = cluster_environment.open_store(HERE)
    cluster_environment.WorkerGroupEnvironment(0, 1, HERE, store.port, HERE).join()
    assert torch.distributed.get_backend() == "nccl"
    torch.distributed.all_reduce(sent := torch.ones(3, device="cuda"))
    assert sent.tolist() == [1] * 3
    cluster_environment.end_groups()
    assert not torch.distributed.is_initialized()


@needs_two
@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2", "fsdp"])
def test_two_workers_train_and_say_why_one_has_failed(
    strategy: str, sweep: Command, attempts: Path, tmp_path: Path
) -> None:
    for file in attempts.iterdir():
        file.unlink()
    flags = {
        "trainable": "tests.faulty.pair", "workers-per-trial": "2", "strategy": strategy,
        "search-space": "tests.faulty.pair_faults", "searcher": "grid", "scheduler": "none",
        "max-epochs": "4", "checkpoint-epochs": "1", "max-failures": "1",
        "name": "s", "results-dir": str(tmp_path),
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    done = sweep(*words, "--no-ray-dashboard", "--no-preflight", timeout_s=200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {trial.params["fault"]: trial for trial in Record.read(tmp_path / "s").trials}
    broken = found.pop("raises")
    assert {trial.status for trial in found.values()} == {"finished"}
    assert (broken.status, list(broken.epochs)) == ("failed", [1, 2])
    assert broken.reason.startswith("RuntimeError: the last worker broke (in another worker, on ")
