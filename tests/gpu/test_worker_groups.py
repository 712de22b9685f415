"""Worker groups over NCCL: of one worker on any GPU, of two where there are two GPUs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from sweeps.record.record import Record
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment, is_lost_connection
from tests.conftest import Command
from tests.gpu.fits import NEEDS_GPU

pytestmark = [*NEEDS_GPU]
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA GPUs")
HERE = "127.0.0.1"


def test_a_group_is_left_and_formed_again() -> None:
    for number in (1.0, 2.0):
        group = WorkerGroupEnvironment.open(HERE, 1)
        group.join(HERE)
        assert torch.distributed.get_backend() == "nccl"
        torch.distributed.all_reduce(sent := torch.full((3,), number, device="cuda"))
        assert sent.tolist() == [number] * 3
        group.leave()
        assert not torch.distributed.is_initialized()


def test_what_follows_when_a_group_is_aborted_counts_as_a_lost_connection() -> None:
    """As a thread does it where another worker has failed."""
    group = WorkerGroupEnvironment.open(HERE, 1)
    group.join(HERE)
    torch.distributed.all_reduce(sent := torch.ones(3, device="cuda"))
    aborting = threading.Thread(target=group.abort)
    aborting.start()
    aborting.join(60)
    assert not aborting.is_alive()
    with pytest.raises(RuntimeError) as told:
        torch.distributed.all_reduce(sent)
    assert is_lost_connection(str(told.value)), told.value
    group.leave()
    assert (torch.ones(3, device="cuda") + 1).sum().item() == 6, "the GPU still computes"


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
