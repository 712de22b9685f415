"""Lightning's Trainer as lean as sweeps/training/runs/fit_loop.py has it."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning.pytorch as pl
import torch

from benchmarks._job import Job

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", ".*(does not have many workers|log_every_n_steps).*")


def fit(job: Job, params: dict[str, Any], max_epochs: int, *callbacks: pl.Callback) -> None:
    """One `fit()`: no logger, bar, summary, sanity check or checkpoint.

    Args:
        job: what is trained, on what, from which data.
        params: hyperparameters.
        max_epochs: to train.
        *callbacks: of the Trainer.
    """
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    pl.seed_everything(job.seed, verbose=False)
    known = job.module().Params(**params)
    model, data = job.module().build_model(known), job.build_data(known)
    precision: Any = job.precision
    trainer = pl.Trainer(
        max_epochs=max_epochs,
        accelerator=job.accelerator,
        devices=1,
        precision=precision,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        callbacks=list(callbacks),
    )
    trainer.fit(model, data)
