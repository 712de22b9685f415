"""A training that runs out of the card's memory: what it needs is measured, and it goes on in parts.

Whole sweeps that do so are those of `tests/end_to_end/test_out_of_memory.py`, which use the card where there
is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.training.fit_loop import Fit
from sweeps.training.profiling import memory
from sweeps.trial.messages import OutOfMemory, remedied
from tests.faulty import hungry
from tests.gpu.fits import NEEDS_GPU, config, trained
from tests.support.trainables import as_trainable

pytestmark = [*NEEDS_GPU]
HUNGRY: dict[str, Any] = {"metric": "val_loss", "mode": "min", "precision": "32", "max_epochs": 2}


@pytest.fixture
def limit() -> Iterator[Callable[[float], None]]:
    """Sets what this process may take of the card, in bytes; in the end all of it again."""
    memory.free()
    whole = torch.cuda.get_device_properties(0).total_memory
    yield lambda size_bytes: torch.cuda.set_per_process_memory_fraction(size_bytes / whole)
    torch.cuda.set_per_process_memory_fraction(1.0)
    memory.free()


def test_what_a_training_needs_is_measured_when_memory_runs_out(limit: Callable[[float], None]) -> None:
    """Of 2 GiB 512 MiB are held whatever the batch, and 64 rows of 128 MiB are asked for at once."""
    before = memory.held_bytes()
    limit(before + 2 * 2**30)
    model = torch.empty(2**29, dtype=torch.uint8, device="cuda")
    held = memory.held_bytes()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(64 * 2**27, dtype=torch.uint8, device="cuda")
    need = memory.need(caught.value, held)
    del model
    assert need is not None
    assert need.held_bytes == before + 2**29
    assert need.needed_bytes == pytest.approx(before + 2**29 + 64 * 2**27, rel=0.05)
    assert need.limit_bytes == pytest.approx(before + 2 * 2**30, rel=0.01)
    assert 64 * need.share_that_may_fit == pytest.approx((0.9 * 2 - 0.5) * 8, abs=1)


def test_a_training_that_ran_out_of_memory_goes_on_as_it_would_have(
    limit: Callable[[float], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is given back: the same trial is trained in parts in the same process."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    params = hungry.Params(case="quarter")
    _, whole = trained(hungry, hungry.Params(case="fits"), **HUNGRY)
    fit = Fit(as_trainable(hungry), params, config(**HUNGRY))  # type: ignore[arg-type]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        fit.run(lambda epoch: True)
    ran_out = OutOfMemory(reason="", traceback="")
    found = remedied(ran_out, fit, memory.need(caught.value, fit.held_bytes or 0))
    assert found.micro_batch == 4, "at once: 16 rows of 80 MB, and 400 MB for all of it"
    assert "out of memory (it needs at least 1." in found.reason, "GB, with what this process held before"
    del fit, caught
    _, parts = trained(hungry, params, **HUNGRY, micro_batch=4)
    assert [each.score for each in parts] == pytest.approx([each.score for each in whole], abs=1e-5)
