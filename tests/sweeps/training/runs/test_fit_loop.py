"""One trial: exact to the bit after a resume, the best epoch's weights, and an end in order."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import nn

from sweeps.common.errors import CannotTrain, MetricNotLogged
from sweeps.common.formatting import shortest
from sweeps.common.objective import Mode, Objective
from sweeps.kinds.params_file import WEIGHTS_FILE
from sweeps.training.config import FitConfig
from sweeps.training.distributed import strategy
from sweeps.training.report import Progress, Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from tests.sweeps.training.schedules import lowered_on_plateau
from trainables import digits_mlp
from trainables._shared.classifier import Classifier


class Threads(pl.Callback):
    """Notes the threads of each epoch."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_train_epoch_end(self, *_: Any) -> None:
        self.seen.append(torch.get_num_threads())


@pytest.mark.skipif(os.cpu_count() == 1, reason="a PC of one core has no second thread to take")
@pytest.mark.parametrize("strategy", ["single", "ddp"])
def test_a_run_keeps_to_its_threads(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    config = FitConfig(max_epochs=2, metric="val_acc", mode="max", strategy=strategy)
    run_through(Fit(as_trainable(digits_mlp), digits_mlp.Params(), config), callbacks=[threads := Threads()])
    assert threads.seen == [1, 1]


class Noisy(Classifier):
    """Draws in each forward pass, and has an optimizer and a schedule with a memory."""

    def __init__(self) -> None:
        net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10))
        super().__init__(net)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs + 0.1 * torch.randn_like(inputs) if self.training else inputs)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


class Impatient(Noisy):
    """Has a schedule that goes by a metric."""

    def configure_optimizers(self) -> Any:
        return lowered_on_plateau(self)


class Planning(Noisy):
    """Asks how many steps there will be, which has the data set up before the optimizers."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def trainable(build_model: Callable[[Any], pl.LightningModule] = digits_mlp.build_model) -> Any:
    """digits_mlp with another model."""
    return SimpleNamespace(
        Params=digits_mlp.Params, build_model=build_model, build_data=digits_mlp.build_data
    )


def config(max_epochs: int = 4, metric: str = "val_acc", mode: Mode = "max", seed: int = 0) -> FitConfig:
    return FitConfig(max_epochs=max_epochs, metric=metric, mode=mode, seed=seed, precision="32")


def train(
    what: Any,
    fit_config: FitConfig,
    *,
    checkpoint: Path | None = None,
    save_at: int = 0,
    folder: Path | None = None,
    stop: bool = False,
) -> tuple[list[Report], Fit]:
    """The epochs of a run, which saves itself after the epoch `save_at` (and stops there)."""
    training = Fit(as_trainable(what), digits_mlp.Params(), fit_config, checkpoint)
    epochs: list[Report] = []

    def on_epoch(epoch: Report) -> bool:
        epochs.append(epoch)
        if epoch.epoch != save_at:
            return True
        assert folder is not None
        folder.mkdir(exist_ok=True)
        training.save(folder)
        return not stop

    run_through(training, on_epoch)
    return epochs, training


def metrics(epochs: list[Report]) -> dict[int, dict[str, float]]:
    return {epoch.epoch: dict(epoch.metrics) for epoch in epochs}


@pytest.mark.parametrize(
    ("at", "build_model"),
    [
        (1, digits_mlp.build_model),
        (3, lambda params: Noisy()),
        (1, lambda params: Impatient()),
        (3, lambda params: Planning()),
    ],
    ids=["sgd", "noisy", "plateau", "one cycle"],
)
def test_a_trial_that_goes_on_from_a_checkpoint_trains_as_one_that_was_never_interrupted(
    at: int, build_model: Callable[[Any], pl.LightningModule], tmp_path: Path
) -> None:
    what = trainable(build_model)
    whole, uninterrupted = train(what, config())
    before, _ = train(what, config(), save_at=at, folder=tmp_path, stop=True)
    torch.rand(7)  # another trial used this process meanwhile
    after, resumed = train(what, config(), checkpoint=tmp_path)
    assert [epoch.epoch for epoch in before] == list(range(1, at + 1))
    assert [epoch.epoch for epoch in after] == list(range(at + 1, 5))
    assert {**metrics(before), **metrics(after)} == metrics(whole)
    assert resumed.progress.score == uninterrupted.progress.score
    for name, tensor in uninterrupted.best.weights.items():
        assert torch.equal(resumed.best.weights[name], tensor)


def test_a_checkpoint_does_not_disturb_the_run_that_writes_it(tmp_path: Path) -> None:
    plain, _ = train(trainable(lambda params: Noisy()), config())
    saving, _ = train(trainable(lambda params: Noisy()), config(), save_at=2, folder=tmp_path)
    assert metrics(saving) == metrics(plain)


def test_the_seed_decides_all() -> None:
    first, again, other = (
        metrics(train(trainable(lambda params: Noisy()), config(2, seed=seed))[0]) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_every_epoch_is_reported_once_with_the_metrics_of_the_model() -> None:
    epochs, _ = train(trainable(), config(3))
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3]
    for epoch in epochs:
        assert set(epoch.metrics) == {"train_loss", "val_loss", "val_acc"}
        assert epoch.score == epoch.metrics["val_acc"]
        assert epoch.seconds > 0


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_weights_saved_are_those_of_the_best_epoch(mode: Mode, tmp_path: Path) -> None:
    epochs, _ = train(trainable(), config(4, mode=mode), save_at=4, folder=tmp_path)
    scores = [epoch.score for epoch in epochs]
    best = max(scores) if mode == "max" else min(scores)
    assert mode == "max" or best != scores[-1]  # in mode min, the best is not simply the last
    model = digits_mlp.build_model(digits_mlp.Params())
    model.load_state_dict(torch.load(tmp_path / WEIGHTS_FILE, weights_only=True))
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.validate(model, digits_mlp.build_data(digits_mlp.Params()), verbose=False)
    assert shortest(float(trainer.callback_metrics["val_acc"])) == best


def test_the_best_epoch_before_a_checkpoint_is_still_the_best_after_it(tmp_path: Path) -> None:
    before, stopped = train(trainable(), config(4, mode="min"), save_at=2, folder=tmp_path, stop=True)
    _, resumed = train(trainable(), config(4, mode="min"), checkpoint=tmp_path)
    assert resumed.progress.score == stopped.progress.score == min(epoch.score for epoch in before)
    for name, tensor in stopped.best.weights.items():
        assert torch.equal(resumed.best.weights[name], tensor)


def test_a_metric_that_is_not_logged_is_answered_with_those_that_are() -> None:
    expected = r"metric 'val_accuracy' was not logged; logged: train_loss, val_acc, val_loss"
    with pytest.raises(MetricNotLogged, match=expected):
        train(trainable(), config(metric="val_accuracy"))


@pytest.mark.parametrize("where", ["on_train_epoch_end", "on_validation_epoch_end"])
def test_a_metric_of_an_earlier_epoch_is_not_taken_for_this_ones(where: str) -> None:
    """Lightning goes on showing what was logged last."""

    def log_at_first(self: pl.LightningModule) -> None:
        getattr(Noisy, where)(self)
        if self.current_epoch == 0:
            self.log("seldom", 1.0)

    model = type("Seldom", (Noisy,), {where: log_at_first})
    told: list[Report] = []
    run = Fit(
        as_trainable(trainable(lambda params: model())), digits_mlp.Params(), config(3, metric="seldom")
    )
    with pytest.raises(MetricNotLogged, match="metric 'seldom' was not logged in epoch 2; logged: train_"):
        run_through(run, lambda epoch: told.append(epoch) or True)
    assert [epoch.score for epoch in told] == [1.0]


def test_an_error_of_the_model_comes_out_as_it_is() -> None:
    class Broken(Noisy):
        def on_train_epoch_start(self) -> None:
            raise ArithmeticError("the model broke")

    with pytest.raises(ArithmeticError, match="the model broke"):
        train(trainable(lambda params: Broken()), config())


def test_a_trial_that_is_told_to_stop_ends_in_order() -> None:
    hooks: list[str] = []

    class Watched(Noisy):
        def on_train_end(self) -> None:
            hooks.append("on_train_end")

        def on_fit_end(self) -> None:
            hooks.append("on_fit_end")

        def teardown(self, stage: str) -> None:
            hooks.append("teardown")

    training = Fit(as_trainable(trainable(lambda params: Watched())), digits_mlp.Params(), config())
    epochs: list[int] = []

    def stop_after_two(epoch: Report) -> bool:
        epochs.append(epoch.epoch)
        return epoch.epoch < 2

    run_through(training, stop_after_two)
    assert epochs == [1, 2]
    assert hooks == ["on_train_end", "on_fit_end", "teardown"]


def test_the_report_hears_of_what_the_model_logs_at_the_very_end_of_an_epoch() -> None:
    class Late(Noisy):
        def on_train_epoch_end(self) -> None:
            self.log("late", float(self.current_epoch))

    epochs, _ = train(trainable(lambda params: Late()), config(2, metric="late"))
    assert [epoch.score for epoch in epochs] == [0.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_metric_has_no_more_digits_than_its_tensor(dtype: torch.dtype, tmp_path: Path) -> None:
    class Logs(Noisy):
        def on_train_epoch_end(self) -> None:
            self.log("tensor", torch.tensor(0.1, dtype=dtype))
            self.log("number", 0.8775)

    what = trainable(lambda params: Logs())
    what.static_metrics = lambda params: {"params_m": float(torch.tensor(1.2)), "weights": 134217744}
    epochs, _ = train(what, config(1, metric="tensor"), save_at=1, folder=tmp_path)
    (epoch,) = epochs
    known = {torch.float32: 0.1, torch.float64: 0.1, torch.float16: 0.099975586, torch.bfloat16: 0.100097656}
    assert epoch.score == epoch.metrics["tensor"] == known[dtype]
    assert torch.tensor(epoch.score, dtype=dtype) == torch.tensor(0.1, dtype=dtype), "it is the same number"
    assert epoch.metrics["number"] == 0.8775
    assert (epoch.metrics["params_m"], epoch.metrics["weights"]) == (1.2, 134217744.0)
    again = Progress.read(tmp_path).last_report("tensor")
    assert again is not None
    assert (again.score, again.metrics) == (epoch.score, epoch.metrics), "as a resume reports it again"


def test_gradients_are_on_and_the_model_trains_after_each_report() -> None:
    modes: list[tuple[bool, bool]] = []

    class Watched(Noisy):
        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
            if index == 0:
                modes.append((self.training, torch.is_grad_enabled()))
            return super().training_step(batch, index)

    train(trainable(lambda params: Watched()), config(3))
    assert modes == [(True, True)] * 3


@pytest.mark.parametrize(
    ("score", "than", "mode", "expected"),
    [
        (0.2, 0.1, "max", True),
        (0.2, 0.1, "min", False),
        (0.1, 0.1, "max", False),
        (0.1, 0.1, "min", False),
        (0.1, math.nan, "max", True),
        (0.1, math.nan, "min", True),
        (math.nan, 0.1, "max", False),
        (math.nan, math.nan, "min", False),
        (math.inf, 0.1, "max", False),
        (-math.inf, 0.1, "min", False),
    ],
)
def test_a_finite_score_beats_a_worse_one_and_nothing_else_beats_any(
    score: float, than: float, mode: Mode, expected: bool
) -> None:
    assert Objective("m", mode).is_better(score, than) is expected


@pytest.mark.parametrize(("devices", "gpus"), [(1, 0), (8, 0), (1, 1), (2, 2), (2, 8)])
def test_a_cpu_takes_any_number_of_workers_and_each_gpu_one(devices: int, gpus: int) -> None:
    strategy.check_devices(devices, gpus)


@pytest.mark.parametrize(("devices", "gpus", "there_are"), [(2, 1, "1 GPU"), (9, 8, "8 GPUs")])
def test_more_devices_than_gpus_are_refused(devices: int, gpus: int, there_are: str) -> None:
    with pytest.raises(CannotTrain, match=f"devices {devices}: this process can use {there_are}"):
        strategy.check_devices(devices, gpus)


def test_more_devices_than_gpus_are_refused_before_a_model_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(CannotTrain, match="devices 2: this process can use 1 GPU"):
        Fit(as_trainable(trainable()), digits_mlp.Params(), dataclasses.replace(config(), devices=2))
