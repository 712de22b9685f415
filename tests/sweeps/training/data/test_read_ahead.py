"""A thread gathers the next batch; `tests/gpu/test_training.py` has it on a card."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from sweeps.training.data.datamodule import read_ahead, read_in_thread


def nothing() -> None:
    """What the thread begins with."""


def test_batches_come_in_their_order() -> None:
    begun: list[int] = []
    assert list(read_in_thread([0, None, 2, 3], lambda: begun.append(threading.get_ident()))) == [
        0,
        None,
        2,
        3,
    ]
    assert len(begun) == 1
    assert begun != [threading.get_ident()]
    assert list(read_in_thread([], nothing)) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_no_thread_is_started() -> None:
    threads = {threading.get_ident() for _ in read_ahead(threading.get_ident() for _ in range(3))}
    assert threads == {threading.get_ident()}


def test_the_next_batch_is_made_while_one_is_used() -> None:
    is_made = threading.Event()

    def batches() -> Iterator[int]:
        yield threading.get_ident()
        is_made.set()
        yield threading.get_ident()

    found = read_in_thread(batches(), nothing)
    assert next(found) == threading.get_ident(), "the first is made here: it may draw the order of the epoch"
    assert is_made.wait(30), "nobody has asked for the second one"
    assert next(found) != threading.get_ident()


def test_an_error_comes_where_its_batch_would() -> None:
    def batches() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("the disk is gone")

    found = read_in_thread(batches(), nothing)
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


def test_an_epoch_that_is_left_ends_its_thread() -> None:
    before = threading.active_count()
    found = read_in_thread(range(100), nothing)
    assert next(found) == 0
    assert threading.active_count() == before + 1
    found.close()
    assert threading.active_count() == before
