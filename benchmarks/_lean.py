"""Lightning's Trainer as lean as sweeps/training/runs/fit_loop.py has it."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning.pytorch as pl
import torch

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", ".*(does not have many workers|log_every_n_steps).*")


def fit(
    module: Any,
    params: dict[str, Any],
    seed: int,
    max_epochs: int,
    *callbacks: pl.Callback,
    accelerator: str = "cpu",
) -> None:
    """One `fit()` on one thread: no logger, bar, summary, sanity check or checkpoint."""
    torch.set_num_threads(1)
    pl.seed_everything(seed, verbose=False)
    known = module.Params(**params)
    model, data = module.build_model(known), module.build_data(known)
    trainer = pl.Trainer(
        max_epochs=max_epochs,
        accelerator=accelerator,
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        callbacks=list(callbacks),
    )
    trainer.fit(model, data)
