"""Score trained weights on the test rows, which no training has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from sweeps.common.params_file import WEIGHTS_FILE
from sweeps.training import fit_loop, trainer_options
from sweeps.training.config import FitConfig, Trainable
from sweeps.training.data.dataset import build_data
from sweeps.training.distributed import strategy


def score(
    trainable: Trainable,
    params: Any,
    config: FitConfig,
    weights: Path,
    *,
    prepared: Path | None = None,
) -> dict[str, float]:
    """Score trained weights on the test rows; {} when the model has no `test_step`.

    Args:
        weights: a folder written by `Fit.save`.
        prepared: as `Fit` has it.
    """
    torch.set_num_threads(config.threads or 1)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    model = trainable.build_model(params)
    data: Any = build_data(trainable, params, prepared)
    if not fit_loop.has_test(model, data):
        return {}
    if config.micro_batch is not None:
        data.batch_size = config.micro_batch
    model.load_state_dict(torch.load(weights / WEIGHTS_FILE, weights_only=True))
    precision: Any = strategy.choose_precision(config.precision, strategy.Device.here())[0]
    options = {**fit_loop.lean(devices=1), **trainer_options.of(trainable, params)}
    trainer = pl.Trainer(precision=precision, enable_checkpointing=False, **options)
    trainer.test(model, data, verbose=False)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}
