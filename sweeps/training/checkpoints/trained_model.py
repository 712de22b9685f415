"""A trained model: its score on the test rows, which no training has seen, and itself.

As Lightning does: the hooks that make layers (`setup`, `configure_model`) run first, then
`on_load_checkpoint`, and then the weights are loaded.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.model_helpers import is_overridden

from sweeps.common.formatting import shortest
from sweeps.kinds import trainer_options
from sweeps.kinds.trainable import LightningTrainable
from sweeps.training import trainer
from sweeps.training.checkpoints.weights import ModelState
from sweeps.training.config import FitConfig
from sweeps.training.distributed import strategy
from sweeps.training.lightning_internals import WHOLE_CHECKPOINT
from sweeps.training.torch_state import random_states_kept
from sweeps.training.trial_logger import TrialLogger


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
    """
    model = trainer.build_model(trainable, params, config, _ignore)
    data = trainer.build_data(trainable, params, config, prepared)
    if trainer.why_no_test(model, data):
        return {}
    if config.micro_batch is not None:
        data.batch_size = config.micro_batch
    precision = strategy.choose_precision(config.precision, strategy.Device.here())[0]
    options = {**trainer_options.checked(trainable.trainer_options(params)), "precision": precision}
    with _loading(ModelState.read(weights).checkpoint(), config, options) as (tester, file, logger):
        tester.test(model, data, file, verbose=False, **WHOLE_CHECKPOINT)
        found: dict[str, Any] = {**logger.new_scalars(), **tester.callback_metrics}
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
    checkpoint = ModelState.read(weights).checkpoint()
    with _process_kept():
        model = trainer.build_model(trainable, params, config, _ignore)
        if any(is_overridden(hook, model) for hook in ("setup", "configure_model")):
            data = trainer.build_data(trainable, params, config, prepared())
            checkpoint["callbacks"] = {}  # else Lightning asks no callback
            options = {"accelerator": "cpu", "callbacks": [_Loaded()]}
            with _loading(checkpoint, config, options) as (loader, file, _), suppress(_WeightsLoaded):
                loader.fit(model, data, ckpt_path=file, **WHOLE_CHECKPOINT)
            model.trainer = None
        else:
            model.on_load_checkpoint(checkpoint)
            model.load_state_dict(checkpoint["state_dict"], strict=model.strict_loading)
        return model.eval()


@contextmanager
def _process_kept() -> Iterator[None]:
    """Leave the threads and the random numbers of a user's process as they are."""
    threads = torch.get_num_threads()
    variables = {name: os.environ.get(name) for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")}
    try:
        with random_states_kept():
            yield
    finally:
        torch.set_num_threads(threads)
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
def _loading(
    checkpoint: dict[str, Any], config: FitConfig, options: dict[str, Any]
) -> Iterator[tuple[trainer.Trainer, Path, TrialLogger]]:
    """A Trainer for one device, the file of a checkpoint for it, and the logger of the model."""
    logger = TrialLogger(None, _ignore)
    own = {"logger": logger, "enable_checkpointing": False, "max_epochs": config.max_epochs}
    with closing(logger), tempfile.TemporaryDirectory() as folder:
        torch.save(checkpoint, Path(folder) / "model.ckpt")
        options = {**trainer.lean(devices=1), **options, **own}
        yield trainer.Trainer(say=_ignore, **options), Path(folder) / "model.ckpt", logger


def _ignore(_: str) -> None:
    """Take a notice that the training has told."""
