"""Weights of the best epoch, in a folder that is whole or not there."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sweeps.kinds.params_file import FILE, WEIGHTS_FILE
from sweeps.training.checkpoints import weights
from sweeps.training.checkpoints.weights import ModelState
from sweeps.training.config import FitConfig
from sweeps.training.report import Position, Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp
from trainables._shared.classifier import SgdClassifier


def test_what_is_kept_reads_back_beside_what_trains_it_again(tmp_path: Path) -> None:
    best = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.zeros(2)}
    weights.keep(tmp_path / "best", ModelState(best), "trainable: net  # größer\n")
    found = torch.load(tmp_path / "best" / WEIGHTS_FILE, weights_only=True)
    assert found.keys() == best.keys()
    assert all(torch.equal(found[name], value) for name, value in best.items())
    assert (tmp_path / "best" / FILE).read_text(encoding="utf-8") == "trainable: net  # größer\n"


def test_what_can_not_be_written_leaves_no_folder(tmp_path: Path) -> None:
    class Unwritable:
        def __reduce__(self) -> str:
            raise RuntimeError("can't be written")

    best: dict[str, Any] = {"layer": Unwritable()}
    with pytest.raises(RuntimeError, match="can't be written"):
        weights.keep(tmp_path / "best", ModelState(best), "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strategy", ["single", "fsdp"])
def test_what_a_checkpoint_takes_is_known_before_one_is_written(strategy: str, tmp_path: Path) -> None:
    config = FitConfig(max_epochs=1, metric="val_acc", mode="max", strategy=strategy, precision="32")
    fit = Fit(as_trainable(digits_mlp), digits_mlp.Params(hidden=512), config)
    assert fit.checkpoint_bytes == 0, "nothing has been trained"
    said: list[int] = []

    def on_epoch(found: Report | Position) -> bool:
        said.append(fit.checkpoint_bytes)
        fit.save(tmp_path)
        return True

    run_through(fit, on_epoch)
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert said == [pytest.approx(written, rel=0.1)]


class WithOwnState(SgdClassifier):
    """Names its weights by itself, as many projects do."""

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        return super().state_dict(*arguments, **named)


@pytest.mark.parametrize("kind", [SgdClassifier, WithOwnState])
def test_a_training_whose_weights_are_nan_has_diverged_and_is_not_refused(kind: Any) -> None:
    def build_model(params: Any) -> Any:
        return kind(torch.nn.Linear(64, 10), lr=math.inf, momentum=0.9, weight_decay=0.0)

    trainable = SimpleNamespace(
        Params=digits_mlp.Params, build_model=build_model, build_data=digits_mlp.build_data
    )
    config = FitConfig(max_epochs=2, metric="val_loss", mode="min", precision="32")
    fit, scores = Fit(as_trainable(trainable), digits_mlp.Params(), config), list[float]()

    def on_epoch(found: Report | Position) -> bool:
        assert isinstance(found, Report)
        scores.append(found.score)
        return True

    run_through(fit, on_epoch)
    assert all(map(math.isnan, scores))
    assert len(scores) == 2
    assert not fit.best.weights


class Bins(torch.nn.Module):
    """Pixels as whole numbers."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.abs().mul(16).long().clamp(0, 16)


def test_an_embedding_that_scales_its_rows_in_a_validation_is_not_refused() -> None:
    def build_model(params: Any) -> Any:
        embedding = torch.nn.Embedding(17, 4, max_norm=0.01)
        net = torch.nn.Sequential(Bins(), embedding, torch.nn.Flatten(), torch.nn.Linear(256, 10))
        return SgdClassifier(net, lr=1.0, momentum=0.9, weight_decay=0.0)

    trainable = SimpleNamespace(
        Params=digits_mlp.Params, build_model=build_model, build_data=digits_mlp.build_data
    )
    config = FitConfig(max_epochs=1, metric="val_acc", mode="max", precision="32")
    fit = Fit(as_trainable(trainable), digits_mlp.Params(), config)
    run_through(fit, lambda found: True)
    assert fit.progress.epochs == 1
