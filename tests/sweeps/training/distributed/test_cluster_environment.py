"""Workers that meet for a trial."""

from __future__ import annotations

import os

import pytest

from sweeps.training.distributed.cluster_environment import (
    INTERFACES,
    WorkerGroupEnvironment,
    open_store,
    use_interface_of,
)
from sweeps.training.distributed.launch import is_lost_connection

HERE = "127.0.0.1"


def test_each_worker_is_a_node_of_its_own_to_lightning_and_meets_the_others_at_a_store() -> None:
    first = open_store(HERE)
    worker = WorkerGroupEnvironment(2, 3, HERE, first.port, HERE)
    variables = worker.variables
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["LOCAL_RANK"]) == ("2", "3", "0")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == (HERE, str(first.port))
    first.set("said", "hello")
    assert worker._store.get("said") == b"hello"


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
