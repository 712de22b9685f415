"""Errors that a user meets: which ones say that memory ran out."""

from __future__ import annotations

import pytest
import torch

from sweeps.common.errors import is_out_of_memory


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
