"""Errors that a user meets: which ones say that memory ran out, and the reason that one tells."""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections.abc import Callable
from typing import NoReturn

import pytest
import torch
from torch.utils.data import DataLoader

from sweeps.common.errors import folded, is_out_of_memory, place_in, reason_of


def raised(what: str) -> Exception:
    try:
        if what == "too much of a CPU":
            torch.empty(2**60)
        elif what == "numpy":
            bytearray(2**62)
        elif what == "wrapped":
            try:
                raise torch.OutOfMemoryError("CUDA out of memory")
            except torch.OutOfMemoryError as error:
                raise ValueError("the step failed") from error
        elif what == "without words":
            raise torch.OutOfMemoryError
        elif what == "cublas":
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)")
        else:
            torch.zeros(2) @ torch.zeros(3)
    except Exception as error:
        return error
    raise AssertionError(what)


@pytest.mark.parametrize("what", ["too much of a CPU", "numpy", "wrapped", "without words", "cublas"])
def test_what_runs_out_of_memory_is_known(what: str) -> None:
    assert is_out_of_memory(raised(what))


def test_another_error_is_none() -> None:
    assert not is_out_of_memory(raised("a bug"))


def refuse(_: object = None) -> NoReturn:
    raise ValueError("lr 0.3: too large\nfor this model")


def wrap(_: object = None) -> NoReturn:
    try:
        refuse()
    except ValueError as error:
        raise RuntimeError("the model can't be built") from error


def wrap_twice(_: object = None) -> NoReturn:
    try:
        wrap()
    except RuntimeError as error:
        raise KeyError("net") from error


def wrap_itself() -> NoReturn:
    error = ValueError("lr 0.3: too large")
    raise error from error


def answer_another() -> NoReturn:
    """An error that was raised because of another one, and does not wrap it."""
    try:
        {}["lr"]
    except KeyError:
        raise ValueError("lr 0.3: too large")  # noqa: B904


def exit_after_an_error() -> NoReturn:
    """As many programs answer an error of theirs."""
    try:
        wrap()
    except RuntimeError as error:
        raise SystemExit(f"my own words: {error}")  # noqa: B904


def raise_a_group() -> NoReturn:
    raise ExceptionGroup("all of them", [ValueError("lr 0.3: too large"), KeyError("net")])


class Rows:
    """Rows that a worker of a DataLoader reads, which tells an error as a text."""

    def __init__(self, read: Callable[[object], object]) -> None:
        self._read = read

    def __len__(self) -> int:
        return 2

    def __getitem__(self, row: int) -> object:
        return self._read(row)


def in_a_loader(read: Callable[[object], object]) -> Callable[[], object]:
    return lambda: list(DataLoader(Rows(read), num_workers=1))  # type: ignore[arg-type]


def in_a_pool() -> object:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(wrap, [1])


@pytest.mark.parametrize(
    "fails",
    [
        refuse,
        wrap,
        wrap_twice,
        wrap_itself,
        answer_another,
        exit_after_an_error,
        raise_a_group,
        in_a_loader(refuse),
        in_a_loader(wrap),
        in_a_loader(wrap_twice),
        in_a_loader(lambda row: answer_another()),
        in_a_pool,
    ],
)
def test_a_reason_is_the_innermost_cause(fails: Callable[[], object]) -> None:
    with pytest.raises((Exception, SystemExit)) as raised:
        fails()
    assert reason_of(raised.value) == "ValueError: lr 0.3: too large"
    traceback.clear_frames(raised.tb)  # a loader left to the garbage collector waits 5 s for its worker


def test_an_error_that_is_its_own_cause_has_an_end() -> None:
    with pytest.raises(ValueError, match="too large") as raised:
        wrap_itself()
    assert not is_out_of_memory(raised.value)


def test_a_reason_without_words_is_its_type() -> None:
    error = RuntimeError("the model can't be built")
    error.__cause__ = AssertionError()
    assert reason_of(error) == "AssertionError"


def test_the_text_of_an_error_is_a_traceback_only_where_it_has_frames() -> None:
    assert reason_of(OSError('two of them:\nFile "a"\nFile "b"')) == 'OSError: two of them: File "a"'


def test_a_reason_that_announces_the_next_line_has_it() -> None:
    error = RuntimeError("Error(s) in loading state_dict for Net:\n\tMissing key(s): w.\n\tMore.")
    assert reason_of(error) == "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s): w."
    assert reason_of(RuntimeError("lost:")) == "RuntimeError: lost:"


def test_frames_of_libraries_are_a_line_where_the_user_has_one() -> None:
    def fails(_: object) -> NoReturn:
        raise ValueError("no\n  such thing")

    try:
        json.dumps({1: object()}, default=fails)
    except ValueError as error:
        text = "".join(traceback.format_exception(error))
    shown = folded(text)
    assert "json" not in shown.replace("json.dumps", "")
    assert " frames of Python\n" in shown
    assert "raise ValueError" in shown
    assert shown.endswith("ValueError: no\n  such thing")
    line = fails.__code__.co_firstlineno + 1
    assert place_in(text) == f" (test_errors.py, line {line})"
    below = text.replace(__file__, "/home/me/ml-packages/tool/train.py")
    assert (place_in(below), "raise ValueError" in folded(below)) == (f" (train.py, line {line})", True)
    of_libraries = "\n".join(each for each in text.splitlines() if "test_errors" not in each)
    assert folded(of_libraries) == of_libraries
    assert place_in(of_libraries) == ""
