"""Lightning's Trainer as a trial has it, the model and the data that it gets, and for how many epochs the
schedules of the learning rate are made."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import filelock
import lightning.pytorch as pl
import torch
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
)

from sweeps.common import imports, local_dirs, project
from sweeps.common.errors import CannotTrain
from sweeps.kinds import trainer_options
from sweeps.kinds.trainable import LightningTrainable
from sweeps.training.config import FitConfig
from sweeps.training.lightning_internals import NO_AUTOLOG, EpochLoop, is_called_by_lightning
from sweeps.training.torch_internals import parts_of_schedule
from sweeps.training.torch_state import random_states, random_states_kept, seed_hooks, seed_stream

ENDS = {
    OneCycleLR: "total_steps",
    CosineAnnealingLR: "T_max",
    LinearLR: "total_iters",
    PolynomialLR: "total_iters",
    ConstantLR: "total_iters",
}
"""Schedules of PyTorch that have an end, and the attribute that holds it."""


class Trainer(pl.Trainer):
    """Trains by epochs, and yet says how many steps of the optimizer there will be.

    Args:
        first_epoch: epochs that were trained before.
        schedule_from: epochs behind which the schedules of the learning rate begin; `configure_optimizers` is
            told the number of those that are left.
        whole_epoch: the limits of an epoch that is not cut short, as options of Lightning's Trainer.
    """

    def __init__(
        self,
        *,
        say: Callable[[str], None],
        seed: int = 0,
        first_epoch: int = 0,
        schedule_from: int = 0,
        whole_epoch: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        self._say, self._seed, self._first_epoch = say, seed, first_epoch
        self._schedule_from, self._is_configuring = schedule_from, False
        self.whole_epoch = whole_epoch
        self.read_length = ""
        """By which property the model has asked for the length of the run first; "" where it has not."""
        self.behind_order: dict[str, Any] | None = None
        """The random numbers to come behind the first epoch's order, where a model had it drawn early."""
        super().__init__(**options)
        own = self.fit_loop.epoch_loop
        self.fit_loop.epoch_loop = EpochLoop(self, min_steps=own.min_steps, max_steps=own.max_steps)

    def configure_for_epochs_left(self, configure: Callable[[], Any]) -> Any:
        """What `configure_optimizers` returns, for the epochs behind `schedule_from`."""
        self._is_configuring = True
        try:
            return configure()
        finally:
            self._is_configuring = False

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy is None, as in Lightning's copies of models. A loader's workers that are not forked get a
        copy of the data module, and the run behind its Trainer can't be copied."""
        return type(None), ()

    @property
    def max_epochs(self) -> int | None:
        """The epochs of the run, which a model may make a schedule for."""
        epochs = super().max_epochs
        if epochs is None or is_called_by_lightning():
            return epochs
        self.read_length = self.read_length or "max_epochs"
        return epochs - self._schedule_from if self._is_configuring else epochs

    @property
    def max_steps(self) -> int:
        """The steps of the whole run, by which many projects divide; -1 where they are not known."""
        if is_called_by_lightning():  # its loops would count steps instead of epochs
            return super().max_steps
        self.read_length = self.read_length or "max_steps"
        steps = int(self.estimated_stepping_batches)
        if steps == -1 or self.lightning_module.automatic_optimization:
            return steps
        optimizers = max(1, len(self.optimizers))
        self._say(
            f"the model optimizes by itself: of trainer.max_steps, each of its {optimizers} optimizers takes "
            "one a batch"
        )
        return steps * optimizers

    @property
    def estimated_stepping_batches(self) -> int | float:
        """The same, as Lightning estimates it."""
        self.read_length = self.read_length or "estimated_stepping_batches"
        if self.state.fn != TrainerFn.FITTING:
            return -1
        try:
            if self.train_dataloader is not None:
                steps = super().estimated_stepping_batches
            else:  # Lightning makes the loader for this, and has it draw the first epoch's order
                with random_states_kept():
                    seed_stream(self._seed, self._first_epoch)
                    steps = super().estimated_stepping_batches
                    self.behind_order = random_states()
        except Exception as error:  # of the user's loaders; it comes again where they are read
            self._say(
                "the model asks for the steps of the run before its data can be read, and is told -1 "
                f"({type(error).__name__}: {error}). Ask in configure_optimizers"
            )
            return -1
        if steps == -1:
            self._say(
                "the model asks for the steps of the run, and is told -1: the training data does not say how "
                "long it is. Give --epoch-steps, the steps of an epoch"
            )
        elif self._is_configuring and (epochs := super().max_epochs):
            return steps // epochs * (epochs - self._schedule_from)
        return steps


def lean(devices: int) -> dict[str, Any]:
    """Settings of a Trainer that shows and writes nothing, on the GPUs, if there are any."""
    return {
        "accelerator": "gpu" if torch.cuda.is_available() else "cpu",
        "devices": devices,
        "logger": False,
        **NO_AUTOLOG,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
    }


def build_model(
    trainable: LightningTrainable, params: Any, config: FitConfig, say: Callable[[str], None]
) -> pl.LightningModule:
    """The model, with the seed and the threads of a run. It is built before the data."""
    torch.set_num_threads(config.threads or 1)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    model = trainable.build_model(params)
    if not isinstance(model, pl.LightningModule):
        raise CannotTrain(_no_module(model))
    guard_download(model)
    seed_hooks(model, config.seed)
    keep_callbacks(model, say)
    return model


def _no_module(model: object) -> str:
    """Why an object is no model, in words."""
    for package in imports.OTHER_NAMES:
        if any(each.__module__.startswith(f"{package}.") for each in type(model).__mro__):
            return (
                f"{type(model).__name__} is a LightningModule of {package}, which this process has imported "
                "before this program, and the Trainer is that of lightning.pytorch: import sweeps first"
            )
    return f"the model is {type(model).__name__!r}, and must be a LightningModule"


def build_data(trainable: LightningTrainable, params: Any, config: FitConfig, prepared: Path | None) -> Any:
    """The data module; None where the model has its own loaders."""
    with random_states_kept():
        # As its hooks are. Else a split would depend on how many numbers the model's layers have drawn.
        seed_stream(config.seed, 0, 1)
        data: Any = trainable.build_data(params, prepared)
    guard_download(data)
    seed_hooks(data, config.seed)
    return data


def guard_download(owner: Any) -> None:
    """Let `prepare_data` of a model or a data module, which downloads, wait for that of other processes of
    this PC: trials run side by side, and their runs know nothing of each other. None has no such hook."""
    base = pl.LightningModule if isinstance(owner, pl.LightningModule) else pl.LightningDataModule
    if owner is not None and is_overridden("prepare_data", owner, base):
        owner.prepare_data = partial(_download_alone, owner)


def _download_alone(owner: Any) -> None:
    kind = type(owner)
    folder = local_dirs.folder_of_user() / "prepare_data"
    folder.mkdir(exist_ok=True)
    name = f"{project.folder()} {kind.__module__} {kind.__qualname__}"
    with filelock.FileLock(folder / f"{hashlib.sha256(name.encode()).hexdigest()}.lock"):
        kind.prepare_data(owner)


def why_no_test(model: pl.LightningModule, data: Any) -> str:
    """Why a model can't be scored on test rows; "" where it can."""
    if not is_overridden("test_step", model, pl.LightningModule):
        return "the model has no test_step"
    owner, parent = (model, pl.LightningModule) if data is None else (data, pl.LightningDataModule)
    if not is_overridden("test_dataloader", owner, parent):
        return "the data has no test_dataloader"
    return ""


def keep_callbacks(model: pl.LightningModule, say: Callable[[str], None]) -> None:
    """Leave out what the program has itself of the callbacks that a model configures."""
    if is_overridden("configure_callbacks", model):
        model.configure_callbacks = partial(_kept, model.configure_callbacks, say)  # type: ignore[method-assign]


def _kept(configure: Callable[[], Sequence[pl.Callback] | pl.Callback], say: Callable[[str], None]) -> Any:
    """The callbacks of `configure_callbacks`.

    Raises:
        CannotTrain: one would change how the model is trained or scored, so that it can't be left out.
    """
    given = trainer_options.callbacks_of({"callbacks": configure()})
    owned = {type(each): why for each in given if (why := trainer_options.why_owned(type(each)))}
    for kind, why in owned.items():
        if not trainer_options.only_shows_or_saves(kind):
            raise CannotTrain(f"configure_callbacks: {kind.__name__}: it can't be taken: {why}")
        say(f"configure_callbacks: {kind.__name__} is left out: {why}")
    return [each for each in given if type(each) not in owned]


def length_of_schedules(trainer: Trainer, passes: int, begin: int, end: int) -> dict[str, Any]:
    """For how many epochs the schedules of a run are made: `epochs`, 0 where they depend on no number of
    epochs; in `words`, by what that is known; and `is_final`, whether no step can be taken behind them.

    Args:
        passes: of Lightning's epochs, those of an epoch here.
        begin: epochs behind which the schedules began.
    """
    for config in trainer.lr_scheduler_configs:
        if isinstance(config.scheduler, ReduceLROnPlateau):
            continue
        steps = 1 if config.interval == "epoch" else _steps_of_epoch(trainer)
        for begins, part in parts_of_schedule(config.scheduler):
            name = ENDS.get(type(part))
            if name is None or not steps:
                continue
            length = vars(part)[name]
            epochs = begin + (begins + length) * config.frequency / (steps * passes)
            if epochs >= end - 1:  # a warm-up ends before
                words = f"{type(part).__name__}, {name} {length}"
                return {"epochs": round(epochs, 3), "words": words, "is_final": type(part) is OneCycleLR}
    if trainer.read_length:
        return {"epochs": end, "words": f"the model reads trainer.{trainer.read_length}"}
    return {"epochs": 0}


def _steps_of_epoch(trainer: Trainer) -> int:
    batches = trainer.num_training_batches
    return 0 if batches == math.inf else math.ceil(batches / trainer.accumulate_grad_batches)
