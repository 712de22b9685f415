"""A trial that is asked to leave its run while epochs are trained again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.storage.folder import Folder
from sweeps.training import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.trial import stop_signal
from sweeps.trial.job import Job
from sweeps.trial.runner import TrialRunner
from tests.faulty import stepwise
from tests.support.prepared import prepare_small

pytestmark = pytest.mark.usefixtures("ray_session", "handlers_as_before")


class Data:
    """As a DataSource answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def here(self, say: object) -> Path:
        return self._folder


def test_it_leaves_in_an_epoch_that_a_retry_trains_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch was reported before: the trial has not ended, and its checkpoint is of no later epoch."""
    monkeypatch.setenv("RAISES_ONCE", str(tmp_path / "raised"))
    data: Any = Data(prepare_small(stepwise, stepwise.Params(), tmp_path / "prepared"))
    fit = FitConfig(max_epochs=4, metric="val_loss", mode="min")
    job = Job(
        trainables={"net": "tests.faulty.stepwise"},
        storage=Folder(tmp_path),
        fit=fit,
        max_failures=1,
        checkpoint_epochs=None,
        prepared={("net", ()): data},
    )
    runner = TrialRunner(job)
    runner.begin({"number": 0, "trainable": "net", "params": {}, "fixed": {}, "seed": 0})
    stop_signal.listen()
    assert [runner.step()["epoch"] for _ in range(2)] == [1, 2]
    left = runner.step()
    assert (left["done"], left["left"]) == (True, "epoch 1, batch 1 of 50")
    assert "status" not in left
    runner.save()
    (checkpoint,) = checkpoint_store.all_of(checkpoint_store.folder_of(tmp_path, 0))
    assert checkpoint_store.epoch_of(checkpoint) == 0
    runner.end()
