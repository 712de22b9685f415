"""What the process of a trial tells: why it failed, and how it goes on when its memory has run out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sweeps.common.errors import CannotTrain, PCUnfit, in_another_worker, without_worker
from sweeps.storage.protocol import StorageError
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from sweeps.trial.messages import (
    NORMS,
    Failed,
    OutOfMemory,
    Unfit,
    WorkerFailed,
    failure_of,
    remedied,
)
from tests.faulty import hungry
from tests.support.trainables import as_trainable

RAN_OUT = OutOfMemory(reason="OutOfMemoryError: no", traceback="Traceback ...")


def raised(error: Exception) -> Exception:
    """With its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_bug_of_the_model_has_its_kind_its_place_and_its_traceback() -> None:
    failure = failure_of(raised(ZeroDivisionError("division by zero")))
    assert isinstance(failure, Failed)
    assert not failure.is_user_error
    assert failure.reason.startswith("ZeroDivisionError: division by zero")
    assert 'test_messages.py", line' in failure.traceback


def test_a_mistake_of_the_users_is_said_in_its_own_words() -> None:
    failure = failure_of(raised(CannotTrain("the batch of 3 can't be shared by 2 workers")))
    assert isinstance(failure, Failed)
    assert failure.is_user_error
    assert failure.reason == "the batch of 3 can't be shared by 2 workers"


def test_what_another_worker_found_is_told_as_it_told_it() -> None:
    found = Unfit(reason="no GPU", pc="pc2", node="id2")
    error = WorkerFailed(found)
    assert str(error) == "no GPU"
    assert failure_of(error) == found


def test_another_worker_is_named_in_the_reason_and_not_in_the_remedy() -> None:
    worker = in_another_worker("pc2")
    failure = failure_of(raised(MemoryError()), None, worker)
    why = "out of memory (in another worker, on pc2): the model and its data can't be built"
    assert (failure.reason, without_worker(failure.reason)) == (why, why.replace(worker, ""))
    of_bug = failure_of(raised(ValueError("no")), None, worker)
    assert of_bug.reason == "ValueError: no (in another worker, on pc2)"
    assert without_worker("ValueError: no") == "ValueError: no"


@pytest.mark.usefixtures("ray_session")
def test_a_pc_that_can_not_train_is_told_from_a_trial_that_fails() -> None:
    for error in (PCUnfit("its disk is full"), StorageError("/store is missing")):
        failure = failure_of(raised(error))
        assert isinstance(failure, Unfit)
        assert failure.reason == str(error)


def test_an_error_that_says_that_memory_ran_out_is_known_by_its_type() -> None:
    assert isinstance(failure_of(raised(torch.OutOfMemoryError("CUDA out of memory."))), OutOfMemory)
    assert isinstance(failure_of(raised(ValueError("no"))), Failed)


def out_of_memory(params: Any, micro_batch: int | None = None, begun: bool = True) -> Fit:
    """A training of which the test says that it ran out of memory, in its first step or before it."""
    fit = FitConfig(metric="val_loss", mode="min", micro_batch=micro_batch)
    training = Fit(as_trainable(hungry), params, fit)  # type: ignore[arg-type]
    training._epoch_end.has_begun = begun
    return training


@pytest.mark.parametrize(
    ("params", "micro_batch", "rows", "notice"),
    [
        (
            hungry.Params(),
            None,
            8,
            "out of memory: it goes on with micro-batches of 8 rows, 2 for each step, so that its batch is",
        ),
        (hungry.Params(), 8, 4, "micro-batches of 4 rows, 4 for each step"),
        (hungry.Params(batch_size=15), None, 5, "micro-batches of 5 rows, 3 for each step"),
        (hungry.Params(batch_size=7), None, 1, "micro-batches of 1 row, 7 for each step"),
    ],
    ids=["half", "half of half", "a third", "a prime"],
)
def test_it_goes_on_with_half(params: Any, micro_batch: int | None, rows: int, notice: str) -> None:
    found = remedied(RAN_OUT, out_of_memory(params, micro_batch))
    assert (found.micro_batch, found.caution, found.traceback) == (rows, "", "Traceback ...")
    assert notice in found.reason


def test_batch_normalization_makes_a_difference() -> None:
    assert remedied(RAN_OUT, out_of_memory(hungry.Params(case="norm"))).caution == NORMS


@pytest.mark.parametrize(
    ("fit", "why"),
    [
        (lambda: None, "out of memory: the model and its data can't be built"),
        (
            lambda: out_of_memory(hungry.Params(case="unsplit")),
            "out of memory: Rows has no attribute batch_size. Set it to the rows of a batch",
        ),
        (
            lambda: out_of_memory(hungry.Params(), begun=False),
            "out of memory: memory ran out before the first step: the model itself does not fit",
        ),
        (
            lambda: out_of_memory(hungry.Params(), micro_batch=1),
            "out of memory: not even a micro-batch of one row fits",
        ),
    ],
    ids=["not built", "no batch size", "the model", "one row"],
)
def test_where_nothing_is_smaller_it_is_infeasible(fit: Any, why: str) -> None:
    found = remedied(RAN_OUT, fit())
    assert found.micro_batch is None
    assert found.reason.startswith(why)


def test_a_model_that_optimizes_by_itself_takes_no_micro_batches() -> None:
    fit = out_of_memory(hungry.Params())
    fit._model.automatic_optimization = False
    assert "the model optimizes by itself" in remedied(RAN_OUT, fit).reason
