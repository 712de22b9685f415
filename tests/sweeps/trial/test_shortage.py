"""What is measured of a GPU when a trial runs out of its memory. The driver lists what a file says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.common.errors import ProgramFailed
from sweeps.trial.messages import OutOfMemory, Shortage, failure_of
from sweeps.trial.run import with_shortage
from tests.sweeps.ray_cluster.test_gpus import fake_nvml

pytestmark = pytest.mark.usefixtures("ray_session")
MIB = 2**20
SAID = (
    "exit status 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total "
    "capacity of 23.00 GiB of which 4.00 GiB is free. Including non-PyTorch memory, this process has "
    "10.00 GiB memory in use."
)


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A program that has 9,216 of 23,552 MiB."""
    (tmp_path / "gpus").write_text("NVIDIA GeForce RTX 3090, 570.86, 23552\n")
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("GPU_PROCESSES", str(tmp_path / "processes"))
    started = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]  # of another parent: it is not ours
    pid = int(subprocess.run(started, capture_output=True, text=True, check=True).stdout)
    (tmp_path / "processes").write_text(f"0, C, {pid}, 9216\n")
    yield pid
    os.kill(pid, signal.SIGKILL)


def of_program(text: str) -> Shortage:
    error = ProgramFailed(text)
    failure = with_shortage(failure_of(error), error)
    assert isinstance(failure, OutOfMemory)
    assert failure.shortage is not None
    return failure.shortage


def test_a_program_that_has_ended_had_what_it_said(other: int) -> None:
    """Its memory is free again when it is measured."""
    found = of_program(SAID.format("6.00"))
    assert found.free_bytes == (23552 - 9216 - 10240) * MIB
    assert found.needed_bytes == (10240 + 6144) * MIB
    assert [each.pid for each in found.others([])] == [other]


@pytest.mark.parametrize("asked_gb", ["14.00", "3.00"])
def test_a_program_that_others_do_not_hinder_is_too_large_itself(other: int, asked_gb: str) -> None:
    assert of_program(SAID.format(asked_gb)).others([]) == []


def test_jax_says_what_it_was_asked_for(other: int) -> None:
    text = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate"
    found = of_program(f"exit status 1: {text} 17179869184 bytes.")
    assert found.asked_bytes == 2**34
    assert [each.pid for each in found.others([])] == [other]
