"""Two programs on one card: each sees what the other holds, and a trial that lacks it is not to blame."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from sweeps.common import gpus
from sweeps.ray_cluster import nodes
from sweeps.training import torch_state
from sweeps.trial.messages import OutOfMemory, failure_of
from sweeps.trial.run import with_shortage
from tests.gpu.fits import NEEDS_GPU

pytestmark = [*NEEDS_GPU]
HOLDS = """
import sys, torch
held = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holds() -> Iterator[Callable[[int], int]]:
    """Has another program hold so many bytes of the card; returns its process id."""
    torch_state.free_memory()
    started: list[subprocess.Popen[str]] = []

    def hold(size_bytes: int) -> int:
        words = [sys.executable, "-c", HOLDS, str(size_bytes)]
        other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(other)
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        return other.pid

    yield hold
    for each in started:
        each.communicate()
    torch_state.free_memory()


def test_what_another_program_holds_is_seen(holds: Callable[[int], int]) -> None:
    before = gpus.listed(os.environ)[0]
    pid = holds(2 * 10**9)
    card = gpus.listed(os.environ)[0]
    assert card.used_bytes - before.used_bytes >= 2 * 10**9
    assert card.memory_bytes is not None
    if card.shows_processes and any(each.user for each in card.processes):  # not in a container
        (other,) = [each for each in card.neighbours([]) if each.pid == pid]
        assert other.used_bytes is None or other.used_bytes >= 2 * 10**9
        assert not [each for each in card.neighbours([os.getpid()]) if each.pid == pid], "it has started it"


def test_a_trial_that_would_have_fit_without_it_is_not_to_blame(
    holds: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "here", lambda: "n1")
    free, whole = torch.cuda.mem_get_info()
    if free < 0.8 * whole:
        pytest.skip("another program holds memory of the card")
    holds(int(0.6 * whole))
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(int(0.5 * whole), dtype=torch.uint8, device="cuda")
    found = with_shortage(failure_of(raised.value), raised.value)
    assert isinstance(found, OutOfMemory)
    assert found.shortage is not None
    assert found.shortage.asked_bytes == pytest.approx(0.5 * whole, rel=0.05)
    assert found.shortage.free_bytes < found.shortage.asked_bytes
    # This process has started the other one, whose memory would else be that of the trial.
    others = found.shortage.card.neighbours([], found.shortage.own_bytes)
    assert sum(each.used_bytes or 0 for each in others) >= 0.5 * whole
    with pytest.raises(torch.OutOfMemoryError) as too_large:
        torch.empty(2 * whole, dtype=torch.uint8, device="cuda")
    failure = with_shortage(failure_of(too_large.value), too_large.value)
    assert isinstance(failure, OutOfMemory)
    assert failure.shortage is not None
    assert failure.shortage.others([]) == [], "it is too large by itself"
