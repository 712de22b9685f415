"""A training that runs out of the card's memory: it goes on in parts.

Whole sweeps that do so are those of `tests/end_to_end/test_out_of_memory.py`, which use the card where there
is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.training import torch_state
from sweeps.training.runs.fit_loop import Fit
from sweeps.trial.messages import OutOfMemory, remedied
from tests.faulty import hungry
from tests.gpu.fits import NEEDS_GPU, config, trained
from tests.support.trainables import as_trainable, run_through

pytestmark = [*NEEDS_GPU]
HUNGRY: dict[str, Any] = {"metric": "val_loss", "mode": "min", "precision": "32", "max_epochs": 2}


@pytest.fixture
def limit() -> Iterator[Callable[[float], None]]:
    """Sets what this process may take of the card, in bytes; in the end all of it again."""
    torch_state.free_memory()
    whole = torch.cuda.get_device_properties(0).total_memory
    yield lambda size_bytes: torch.cuda.set_per_process_memory_fraction(size_bytes / whole)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch_state.free_memory()


def test_a_training_that_ran_out_of_memory_goes_on_as_it_would_have(
    limit: Callable[[float], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is given back: the same trial is trained in parts in the same process."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    params = hungry.Params(case="quarter")
    _, whole = trained(hungry, hungry.Params(case="fits"), **HUNGRY)
    fit = Fit(as_trainable(hungry), params, config(**HUNGRY))  # type: ignore[arg-type]
    with pytest.raises(torch.OutOfMemoryError):
        run_through(fit)
    found = remedied(OutOfMemory(reason="", traceback=""), fit)
    assert found.micro_batch == 8, "half of 16 rows; a quarter of them fits"
    del fit
    _, parts = trained(hungry, params, **HUNGRY, micro_batch=4)
    assert [each.score for each in parts] == pytest.approx([each.score for each in whole], abs=1e-5)
