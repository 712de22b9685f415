"""The winner is scored on the test rows as it was trained: with as many rows at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sweeps.common.errors import is_out_of_memory
from sweeps.space.point import Point
from sweeps.storage.open import Folder
from sweeps.training.config import FitConfig
from sweeps.trial import test_score
from sweeps.trial.job import Job
from tests.faulty import hungry
from tests.support.trainables import described


def scored(micro_batch: int | None, folder: Path) -> dict[str, float]:
    """The scores of a model that takes 80 MB of 400 for each row of a batch of 16."""
    job = Job(
        trainables={"net": described("tests.faulty.hungry", "net")},
        storage=Folder(folder),
        fit=FitConfig(metric="val_loss", mode="min", precision="32"),
        max_failures=0,
        checkpoint_epochs=None,
    )
    params = {"case": "quarter"}
    weights = folder / "weights.pt"
    torch.save(hungry.build_model(hungry.Params(**params)).state_dict(), weights)
    point = Point("net", params)
    return test_score.test_winner(job, point, 0, micro_batch, {weights.name: weights.read_bytes()})


def test_a_winner_that_fits_in_parts_alone_is_scored_in_parts(tmp_path: Path) -> None:
    assert set(scored(4, tmp_path)) == {"test_loss"}
    with pytest.raises(RuntimeError, match="memory") as raised:
        scored(None, tmp_path)
    assert is_out_of_memory(raised.value)
