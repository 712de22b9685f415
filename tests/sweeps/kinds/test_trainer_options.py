"""`trainer_options` of a trainable: what the Trainer gets, and what is refused with the reason."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch import callbacks
from torch.utils.data import DataLoader, IterableDataset

from sweeps.common.errors import CannotTrain, UserError, refuse
from sweeps.kinds import trainer_options
from sweeps.kinds.trainer_options import FREE, OWNED, OWNED_CALLBACKS, VALIDATION
from sweeps.training.config import FitConfig, own_settings
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp

CONFIG = FitConfig(max_epochs=3, metric="val_acc", mode="max")


def trainable(options: Any) -> Any:
    """digits_mlp with options of the Trainer."""
    function = options if callable(options) else lambda params: options
    return as_trainable(SimpleNamespace(**vars(digits_mlp), trainer_options=function), "net")


class Seen(pl.Callback):
    """Notes the steps of each epoch, and the norm of the gradients of each step."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.norms: list[float] = []
        self.validated = 0

    def on_before_zero_grad(self, trainer: pl.Trainer, model: pl.LightningModule, *_: Any) -> None:
        gradients = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
        if gradients:
            self.norms.append(float(torch.cat(gradients).norm()))

    def on_validation_batch_end(self, *_: Any) -> None:
        self.validated += 1

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.steps.append(trainer.global_step)


def trained(options: Any, config: FitConfig = CONFIG) -> tuple[Seen, list[Report]]:
    seen, epochs = Seen(), list[Any]()
    fit = Fit(trainable(options), digits_mlp.Params(batch_size=64), config)
    run_through(fit, lambda epoch: epochs.append(epoch) or True, [seen])
    return seen, epochs


def test_every_setting_of_the_trainer_is_free_or_has_its_reason() -> None:
    assert sorted([*FREE, *OWNED, *VALIDATION]) == sorted(inspect.signature(pl.Trainer).parameters)


def test_the_callbacks_that_are_refused_are_those_of_lightning() -> None:
    known = {*callbacks.__all__, "SaveConfigCallback"}
    assert set(OWNED_CALLBACKS) <= known
    refused = {name for name in callbacks.__all__ if trainer_options.why_owned(getattr(callbacks, name))}
    assert {"ModelCheckpoint", "OnExceptionCheckpoint", "RichProgressBar", "RichModelSummary"} <= refused
    assert not refused & {"EarlyStopping", "EMAWeightAveraging", "LambdaCallback", "Callback"}


def test_a_function_that_returns_nothing_is_told_also_where_validations_are_asked_for() -> None:
    told = "^net: trainer_options must return a dict of settings of Lightning's Trainer, not None$"
    with pytest.raises(UserError, match=told):
        own_settings(CONFIG, trainable(lambda params: None), digits_mlp.Params())


def test_gradients_are_clipped_and_batches_limited() -> None:
    plain, _ = trained({})
    seen, _ = trained({"gradient_clip_val": 0.01, "limit_train_batches": 5, "limit_val_batches": 1})
    assert seen.steps == [5, 10, 15]
    assert seen.validated == 3
    assert max(seen.norms) == pytest.approx(0.01, rel=1e-3)
    assert max(plain.norms) > 0.1


def test_options_depend_on_hyperparameters() -> None:
    seen, _ = trained(lambda params: {"limit_train_batches": params.batch_size // 16})
    assert seen.steps == [4, 8, 12]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"check_val_every_n_epoch": 1, "val_check_interval": 1.0}, {}),
        ({"check_val_every_n_epoch": 5}, {"check_val_every_n_epoch": 5}),
        ({"check_val_every_n_epoch": None, "val_check_interval": 200}, {"val_check_interval": 200}),
        ({"val_check_interval": 1}, {"val_check_interval": 1}),
        ({"val_check_interval": 0.25}, {"val_check_interval": 0.25}),
    ],
)
def test_what_an_epoch_is_follows_from_the_options(options: Any, expected: Any) -> None:
    assert trainable(options).fit_settings(digits_mlp.Params()) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"val_check_interval": "00:15:00"}, "val_check_interval 00:15:00: .* not by the clock"),
        ({"val_check_interval": 0.5, "check_val_every_n_epoch": 2}, "check_val.* give one of them"),
        ({"check_val_every_n_epoch": 0}, "check_val_every_n_epoch 0: must be a whole number, at least 1"),
    ],
)
def test_validations_that_make_no_epochs_are_refused(options: Any, expected: str) -> None:
    with pytest.raises(UserError, match=f"--trainable net: {expected}"):
        refuse(trainable(options).faults_of_options(digits_mlp.Params()))


def test_a_training_that_a_callback_ends_is_over() -> None:
    stopping = callbacks.EarlyStopping("val_acc", mode="max", patience=1, min_delta=1.0)
    _, epochs = trained({"callbacks": stopping})
    assert [epoch.epoch for epoch in epochs] == [1, 2]


@pytest.mark.parametrize(("limit", "steps"), [(None, 10), (6, 3), (0.5, 5)])
def test_accumulation_and_limits_count_whole_batches_whatever_the_micro_batch(
    limit: float | None, steps: int
) -> None:
    options = {"accumulate_grad_batches": 2, "limit_train_batches": limit}
    config = FitConfig(max_epochs=1, metric="val_acc", mode="max", micro_batch=16)
    whole, (first,) = trained(options, FitConfig(max_epochs=1, metric="val_acc", mode="max"))
    split, (second,) = trained(options, config)
    assert whole.steps == split.steps == [steps]
    assert split.norms[-1] == pytest.approx(whole.norms[-1], rel=1e-3)
    assert second.score == pytest.approx(first.score, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_epochs": 3}, "trainer_options: max_epochs: the sweep sets it: .* give --max-epochs"),
        ({"logger": None}, "logger: the sweep sets it: .* give --loggers"),
        (
            {"devices": 2, "precision": 16},
            "precision: .*\n.*devices: the sweep sets it: .* see --gpus-per-trial and --workers-per-trial "
            r"\(sweeps fit: --devices\)",
        ),
        ({"gradient_clip": 1}, "no such setting of Lightning's Trainer. Did you mean 'gradient_clip_val'"),
        ({"callbacks": [callbacks.ModelCheckpoint()]}, "ModelCheckpoint: it can't be taken: checkpoints"),
        ({"accumulate_grad_batches": 0}, "accumulate_grad_batches: 0: must be a whole number, at least 1"),
        ([], r"must return a dict of settings of Lightning's Trainer, not \[\]"),
    ],
)
def test_what_the_sweep_owns_is_refused_with_the_reason(options: Any, expected: str) -> None:
    with pytest.raises(CannotTrain, match=expected):
        trainer_options.checked(trainable(options).trainer_options(digits_mlp.Params()))
    with pytest.raises(UserError, match="--trainable net: trainer_options"):
        refuse(trainable(options).faults_of_options(digits_mlp.Params()))


def test_a_function_that_raises_is_named() -> None:
    def options(params: Any) -> dict[str, Any]:
        raise KeyError("clip")

    with pytest.raises(UserError, match="--trainable net: trainer_options raises KeyError: 'clip'"):
        refuse(trainable(options).faults_of_options(digits_mlp.Params()))


@pytest.mark.parametrize("micro_batch", [None, 16])
def test_an_epoch_may_be_some_steps(micro_batch: int | None) -> None:
    config = FitConfig(max_epochs=2, metric="val_acc", mode="max", epoch_steps=3, micro_batch=micro_batch)
    whole, _ = trained({})
    seen, epochs = trained({"accumulate_grad_batches": 2}, config)
    assert seen.steps == [3, 6]
    assert len(epochs) == 2
    if micro_batch is None:
        assert seen.validated * 3 == whole.validated * 2, "all rows, in two epochs of three"


class Endless(IterableDataset[list[torch.Tensor]]):
    """Rows without an end."""

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        while True:
            yield [torch.rand(64), torch.randint(10, ())]


def test_data_without_an_end_has_epochs_of_some_steps() -> None:
    data = digits_mlp.build_data(digits_mlp.Params())
    data.train_dataloader = lambda: DataLoader(Endless(), batch_size=8)
    endless: Any = SimpleNamespace(**{**vars(digits_mlp), "build_data": lambda params: data})
    seen, epochs = Seen(), list[Any]()
    config = FitConfig(max_epochs=3, metric="val_acc", mode="max", epoch_steps=4)
    fit = Fit(as_trainable(endless), digits_mlp.Params(), config)
    run_through(fit, lambda epoch: epochs.append(epoch) or True, [seen])
    assert (seen.steps, len(epochs)) == ([4, 8, 12], 3)


def test_a_limit_is_the_smallest_one() -> None:
    def limits(options: dict[str, Any], *more: int | None) -> tuple[Any, Any, Any]:
        found = trainer_options.in_parts(options, *more)  # type: ignore[arg-type]
        return tuple(found[f"{name}_batches"] for name in ("accumulate_grad", "limit_train", "limit_val"))  # type: ignore[return-value]

    assert limits({"limit_train_batches": 4}, 2, None) == (2, 8, None)
    tripled = {"limit_train_batches": 4, "limit_val_batches": 0.5, "accumulate_grad_batches": 3}
    assert limits(tripled, 2, 1) == (6, 6, 0.5)
    assert limits({"limit_train_batches": 0.5}, 1, 7, 2) == (1, 2, 2)
