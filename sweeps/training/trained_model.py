"""A trained model: its score on the test rows, which no training has seen, and itself.

As Lightning does: the hooks that make layers (`setup`, `configure_model`) run first, then
`on_load_checkpoint`, and then the weights are loaded.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.model_helpers import is_overridden

from sweeps.common.formatting import shortest
from sweeps.kinds.trainable import LightningTrainable
from sweeps.kinds.trainer_options import trainer_options_for
from sweeps.training import trainer
from sweeps.training.config import FitConfig
from sweeps.training.distributed import strategy
from sweeps.training.torch_state import random_states, restore_random_states
from sweeps.training.trial_logger import TrialLogger
from sweeps.training.weights import ModelState


def score_test_rows(
    trainable: LightningTrainable,
    params: Any,
    config: FitConfig,
    weights: Path,
    *,
    prepared: Path | None = None,
) -> dict[str, float]:
    """Score trained weights on the test rows; {} when the model or its data has no test.

    Args:
        weights: a folder written by `Fit.save`.
        prepared: as `Fit` has it.
    """
    model = trainer.build_model(trainable, params, config, _ignore)
    data = trainer.build_data(trainable, params, config, prepared)
    if trainer.why_no_test(model, data):
        return {}
    if config.micro_batch is not None:
        data.batch_size = config.micro_batch
    precision: Any = strategy.choose_precision(config.precision, strategy.Device.here())[0]
    options = {**trainer.lean(devices=1), **trainer_options_for(trainable, params)}
    with _checkpoint(ModelState.read(weights)) as file, _logger() as options["logger"]:
        options |= {"precision": precision, "enable_checkpointing": False, "max_epochs": config.max_epochs}
        tester = trainer.Trainer(say=_ignore, **options)
        tester.test(model, data, file, verbose=False, weights_only=False)
        found = {**options["logger"].new_scalars(), **tester.callback_metrics}
    return {name: shortest(float(value)) for name, value in found.items()}


def load_model(
    trainable: LightningTrainable,
    params: Any,
    config: FitConfig,
    weights: Path,
    prepared: Callable[[], Path | None],
) -> pl.LightningModule:
    """A trained model, on the CPU, ready to predict.

    Args:
        weights: a folder written by `Fit.save`.
        prepared: finds the folder of prepared data. Called where hooks of the model may need its data.

    Raises:
        OSError, EOFError, pickle.UnpicklingError, RuntimeError, TypeError: the weights can't be read, or fit
            no more.
    """
    with _process_kept():
        return _load_model(trainable, params, config, ModelState.read(weights), prepared)


def _load_model(
    trainable: LightningTrainable,
    params: Any,
    config: FitConfig,
    state: ModelState,
    prepared: Callable[[], Path | None],
) -> pl.LightningModule:
    model = trainer.build_model(trainable, params, config, _ignore)
    if any(is_overridden(hook, model) for hook in ("setup", "configure_model")):
        data = trainer.build_data(trainable, params, config, prepared())
        options = {**trainer.lean(devices=1), "accelerator": "cpu", "enable_checkpointing": False}
        options["max_epochs"] = config.max_epochs
        # Lightning asks its callbacks where the checkpoint holds states of some.
        with (
            _checkpoint(state, callbacks={}) as file,
            _logger() as options["logger"],
            suppress(_WeightsLoaded),
        ):
            loader = trainer.Trainer(say=_ignore, **options, callbacks=[_Loaded()])
            loader.fit(model, data, ckpt_path=file, weights_only=False)
        model.trainer = None
    else:
        checkpoint = state.checkpoint()
        model.on_load_checkpoint(checkpoint)
        model.load_state_dict(checkpoint["state_dict"], strict=model.strict_loading)
    return model.eval()


@contextmanager
def _process_kept() -> Iterator[None]:
    """Leave the threads and the random numbers of a user's process as they are."""
    threads, states = torch.get_num_threads(), random_states()
    variables = {name: os.environ.get(name) for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")}
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        restore_random_states(states)
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class _WeightsLoaded(BaseException):
    """Ends a fit that has loaded the weights."""


class _Loaded(pl.Callback):
    def on_load_checkpoint(self, *_: Any) -> None:
        raise _WeightsLoaded


@contextmanager
def _logger() -> Iterator[TrialLogger]:
    """What the model finds as `self.logger`."""
    logger = TrialLogger(None, _ignore)
    try:
        yield logger
    finally:
        logger.close()


def _ignore(_: str) -> None:
    """Take a notice that the training has told."""


@contextmanager
def _checkpoint(state: ModelState, **more: Any) -> Iterator[Path]:
    """A file that Lightning loads as a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state.checkpoint() | more, Path(folder) / "model.ckpt")
        yield Path(folder) / "model.ckpt"
