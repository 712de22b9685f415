"""The rungs of the speed ladder: what may make training faster, one thing each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sweeps.training.ladder.measure import Setup

LARGER = 4
"""Times the batch."""


@dataclass(frozen=True)
class Place:
    """What there is to train with."""

    gpus: int
    cores: int
    batch_rows: int
    """As Params say."""
    has_raw: bool
    """Whether the trainable can read raw data, the naive way."""
    has_prepared: bool
    has_loader_hyperparameter: bool


@dataclass(frozen=True)
class Rung:
    """One thing that may make training faster."""

    name: str
    set_up: Callable[[Setup, Place], Setup | str]
    """From the fastest set-up so far; or why it can't be here."""


def first(where: Place) -> Setup:
    """As a trainable is given: raw data where it can be read, no worker that reads ahead, fp32."""
    return Setup(is_raw=where.has_raw, loader_workers=0 if where.has_raw else None, threads=where.cores)


def in_words(before: Setup, now: Setup) -> str:
    """What differs."""
    names = [field.name for field in dataclasses.fields(Setup)]
    changed = [name for name in names if getattr(before, name) != getattr(now, name)]
    words = {"is_raw": "prepared rows", "compile": "torch.compile"}
    return ", ".join(
        words.get(name, f"{name.replace('_', ' ')} {getattr(now, name)}") for name in changed
    ) or ("raw data" if now.is_raw else "as build_data has it")


def _more_workers(setup: Setup, where: Place) -> Setup | str:
    if not setup.is_raw and not where.has_loader_hyperparameter:
        return "neither build_raw_data nor a hyperparameter loader_workers"
    return dataclasses.replace(setup, loader_workers=where.cores)


def _prepared(setup: Setup, where: Place) -> Setup | str:
    if not where.has_prepared:
        return "the trainable defines no prepare"
    if not where.has_raw:
        return "it is read as prepared from the start: the trainable defines no build_raw_data"
    workers = setup.loader_workers if where.has_loader_hyperparameter else None
    return dataclasses.replace(setup, is_raw=False, loader_workers=workers)


def _larger_batch(setup: Setup, where: Place) -> Setup:
    return dataclasses.replace(setup, batch_rows=LARGER * where.batch_rows)


def _lower_precision(setup: Setup, where: Place) -> Setup:
    return dataclasses.replace(setup, precision="16-mixed" if where.gpus else "bf16-mixed")


def _on_all(strategy: Any) -> Callable[[Setup, Place], Setup | str]:
    def set_up(setup: Setup, where: Place) -> Setup | str:
        devices = where.gpus or where.cores
        if devices == 1:
            return f"one {'GPU' if where.gpus else 'core'}: nobody to share with"
        threads = max(1, where.cores // devices)
        return dataclasses.replace(setup, strategy=strategy, devices=devices, threads=threads)

    return set_up


def _compiled(setup: Setup, where: Place) -> Setup | str:
    return dataclasses.replace(setup, compile=True)


RUNGS = (
    Rung("as given", lambda setup, where: setup),
    Rung("more loader workers", _more_workers),
    Rung("prepared Parquet", _prepared),
    Rung("larger batch", _larger_batch),
    Rung("lower precision", _lower_precision),
    Rung("DDP on all devices", _on_all("ddp")),
    Rung("ZeRO 2 on all devices", _on_all("deepspeed_stage_2")),
    Rung("compile", _compiled),
)
