"""Why a trial did not end well, as its result says it."""

from __future__ import annotations

import pytest
import torch

from sweeps.common.errors import CannotTrain, PCUnfit
from sweeps.trial.failures import WorkerFailed, WorkerUnfit, failed, unfit


def raised(error: Exception) -> Exception:
    """With its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_bug_of_the_model_has_its_kind_its_place_and_its_traceback() -> None:
    result = failed(raised(ZeroDivisionError("division by zero")))
    assert (result["status"], result["done"], result["is_user_error"]) == ("failed", True, False)
    assert result["reason"].startswith("ZeroDivisionError: division by zero")
    assert 'test_failures.py", line' in result["traceback"]


def test_a_mistake_of_the_users_is_said_in_its_own_words() -> None:
    result = failed(raised(CannotTrain("the batch of 3 can't be shared by 2 workers")))
    assert (result["reason"], result["is_user_error"]) == (
        "the batch of 3 can't be shared by 2 workers",
        True,
    )


def test_what_another_worker_found_is_told_as_it_told_it() -> None:
    found = {"done": True, "unfit": "no GPU", "at": {"pc": "pc2", "node": "id2"}, "reason": "no GPU"}
    error = WorkerUnfit(found)
    assert isinstance(error, PCUnfit)
    assert isinstance(error, WorkerFailed)
    assert str(error) == "no GPU"
    assert unfit(error) == found


def test_an_error_that_says_that_memory_ran_out_is_known_by_its_result() -> None:
    assert failed(raised(torch.OutOfMemoryError("CUDA out of memory.")))["is_out_of_memory"]
    assert not failed(raised(ValueError("no")))["is_out_of_memory"]
