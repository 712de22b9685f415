"""Workers that meet for a trial and leave each other again."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from sweeps.training.distributed.cluster_environment import (
    INTERFACES,
    Rendezvous,
    WorkerGroupEnvironment,
    is_lost_connection,
    use_interface_of,
)


def test_each_worker_is_a_node_of_its_own_to_lightning() -> None:
    variables = Rendezvous(2, 3, "10.0.0.1", 29500).variables
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["LOCAL_RANK"]) == ("2", "3", "0")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("10.0.0.1", "29500")


def test_another_worker_finds_what_the_first_has_put_into_the_store() -> None:
    first = WorkerGroupEnvironment.open("127.0.0.1", 2)
    there = first.rendezvous
    assert (there.rank, there.workers, there.address) == (0, 2, "127.0.0.1")
    other = WorkerGroupEnvironment.connect(Rendezvous(1, 2, there.address, there.port))
    first._store.set("said", "hello")
    assert other._store.get("said") == b"hello"
    for worker in (other, first):
        worker.leave()
        worker.leave()


def test_nccls_groups_are_aborted_before_they_wait_for_the_other_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no NCCL here: gloo's groups in its place, whose end waits as NCCL's does."""
    aborted: list[Any] = []
    destroy = torch.distributed.destroy_process_group

    def end(group: Any = None) -> None:
        assert set(aborted) == set(there), "it would wait for the other workers"
        destroy(group)

    worker = WorkerGroupEnvironment.open("127.0.0.1", 1)
    worker.join("127.0.0.1")
    there = [torch.distributed.group.WORLD, torch.distributed.new_group([0])]
    monkeypatch.setattr(torch.distributed.ProcessGroup, "abort", lambda group: aborted.append(group))
    monkeypatch.setattr(torch.distributed, "destroy_process_group", end)
    worker.abort()
    assert not aborted, "gloo's can't be"
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    worker.leave()
    assert not torch.distributed.is_initialized()


def test_the_interface_is_that_of_the_address_unless_the_user_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gloo, nccl = INTERFACES
    monkeypatch.setenv(gloo, "theirs")
    monkeypatch.setenv(nccl, "")
    monkeypatch.delenv(nccl)
    use_interface_of("127.0.0.1")
    assert (os.environ[gloo], os.environ[nccl]) == ("theirs", "=lo")


def test_a_lost_worker_is_told_from_a_bug() -> None:
    assert is_lost_connection("[pair.cc:534] Connection closed by peer [10.0.0.2]:3141")
    assert is_lost_connection("remote process exited or there was a network error")
    assert is_lost_connection("NCCL communicator was aborted on rank 0.")
    assert not is_lost_connection("mat1 and mat2 shapes cannot be multiplied")
