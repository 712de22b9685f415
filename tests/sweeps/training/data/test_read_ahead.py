"""Batches for a GPU are gathered by a thread; here the calls of CUDA are replaced."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from sweeps.training.data.read_ahead import read_ahead


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A GPU for what asks for one; the devices that threads have chosen."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


def test_batches_come_in_their_order(gpu: list[int]) -> None:
    assert list(read_ahead(range(5))) == [0, 1, 2, 3, 4]
    assert list(read_ahead([])) == []
    assert gpu == [1], "the thread uses the GPU of its caller, of which it needs none for no batch"


def test_without_a_gpu_no_thread_is_started() -> None:
    threads = {threading.get_ident() for _ in read_ahead(threading.get_ident() for _ in range(3))}
    assert threads == {threading.get_ident()}


def test_the_next_batch_is_made_while_one_is_used(gpu: list[int]) -> None:
    is_made = threading.Event()

    def batches() -> Iterator[int]:
        yield threading.get_ident()
        is_made.set()
        yield threading.get_ident()

    found = read_ahead(batches())
    assert next(found) == threading.get_ident(), "the first is made here: it may draw the order of the epoch"
    assert is_made.wait(30), "nobody has asked for the second one"
    assert next(found) != threading.get_ident()


def test_an_error_comes_where_its_batch_would(gpu: list[int]) -> None:
    def batches() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("the disk is gone")

    found = read_ahead(batches())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


def test_an_epoch_that_is_left_ends_its_thread(gpu: list[int]) -> None:
    before = threading.active_count()
    found = read_ahead(iter(range(100)))
    assert next(found) == 0
    assert threading.active_count() == before + 1
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
