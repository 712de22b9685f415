"""Trained weights are scored on the test rows, where the model and its data have them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl

from sweeps.training.checkpoints import trained_model
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp

CONFIG = FitConfig(max_epochs=2, metric="val_acc", mode="max")


def test_a_trained_model_is_scored_on_the_test_rows(tmp_path: Path) -> None:
    fit = Fit(as_trainable(digits_mlp), digits_mlp.Params(), CONFIG)
    run_through(fit)
    fit.save(tmp_path)
    scores = trained_model.score_test_rows(as_trainable(digits_mlp), digits_mlp.Params(), CONFIG, tmp_path)
    assert list(scores) == ["test_acc"]
    assert 0.5 < scores["test_acc"] <= 1


def test_a_model_without_a_test_step_has_no_test_score(tmp_path: Path) -> None:
    what: Any = SimpleNamespace(
        build_model=lambda params: pl.LightningModule(), build_data=digits_mlp.build_data
    )
    assert trained_model.score_test_rows(as_trainable(what), digits_mlp.Params(), CONFIG, tmp_path) == {}
