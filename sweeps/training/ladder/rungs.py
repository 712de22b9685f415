"""The rungs of the speed ladder: each is one change that may make training faster. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeps.common.imports import missing
from sweeps.common.settings import Settings, setting
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds.trainable import LightningTrainable
from sweeps.training.config import FitConfig, Strategy

AGAIN = "as given, again"
"""The first rung once more, at the end: whether the PC is as fast as it was."""
NO_BATCH_SIZE = "the data module has no attribute batch_size"
PLAIN = FitConfig(precision="32", strategy="single")


@dataclass(frozen=True, kw_only=True)
class LadderConfig(Settings):
    """Settings of a ladder."""

    trainable: LightningTrainable
    """What is trained."""
    params: Mapping[str, ParamValue]
    """Given hyperparameters; the others have their defaults."""
    seconds: float = setting(12.0, above=0, group="Measurement", metavar="SECONDS")
    """Time to measure each rung, in seconds."""
    name: str | None = None
    """Name of the ladder's folder (default: ladder-, the trainable and the time of day)."""
    results_dir: str = setting("results", metavar="FOLDER")
    """Folder of all results."""

    @property
    def folder(self) -> Path:
        return Path(self.results_dir).expanduser() / str(self.name)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a rung trains."""

    fit: FitConfig = PLAIN
    is_raw: bool = False
    """Whether the rows are raw data, read by `build_raw_data`."""
    loader_workers: int | None = None
    """Processes that read ahead; None: as Params has it."""
    batch_rows: int | None = None
    """Rows of a batch; None: as Params has it."""

    def with_fit(self, **settings: Any) -> Setup:
        """The same with other settings of the fit."""
        return replace(self, fit=replace(self.fit, **settings))


@dataclass(frozen=True)
class Capabilities:
    """What the PC and the trainable offer."""

    gpus: int
    cores: int
    batch_rows: int | None
    """Rows of a batch as Params has it; None: the data module does not say."""
    has_raw: bool
    has_prepared: bool
    has_loader_hyperparameter: bool


Change = Callable[[Setup, Capabilities], Setup | str]
"""The fastest setup so far to the setup of a rung, or to the reason for which the rung is skipped."""


def start(has: Capabilities) -> Setup:
    """The first rung: raw data where it can be read, no process that reads ahead, fp32."""
    setup = Setup(is_raw=has.has_raw, loader_workers=0 if has.has_raw else None)
    return setup.with_fit(threads=has.cores)


def changes(before: Setup, now: Setup) -> str:
    """The settings that differ, as text."""
    texts = {"is_raw": "prepared rows", "compile": "torch.compile"}
    old, new = ({**vars(setup.fit), **vars(setup)} for setup in (before, now))
    changed = [name for name in new if name != "fit" and new[name] != old[name]]
    words = [texts.get(name, f"{name.replace('_', ' ')} {new[name]}") for name in changed]
    return ", ".join(words) or ("raw data" if now.is_raw else "data of build_data")


def _more_workers(setup: Setup, has: Capabilities) -> Setup | str:
    if not setup.is_raw and not has.has_loader_hyperparameter:
        return "the trainable defines neither build_raw_data nor the hyperparameter loader_workers"
    return replace(setup, loader_workers=has.cores)


def _prepared(setup: Setup, has: Capabilities) -> Setup | str:
    if not has.has_prepared:
        return "the trainable defines no prepare"
    if not has.has_raw:
        return "all rungs read prepared data, since the trainable defines no build_raw_data"
    workers = setup.loader_workers if has.has_loader_hyperparameter else None
    return replace(setup, is_raw=False, loader_workers=workers)


def _larger_batch(setup: Setup, has: Capabilities) -> Setup | str:
    if has.batch_rows is None:
        return NO_BATCH_SIZE
    return replace(setup, batch_rows=4 * has.batch_rows)


def _lower_precision(setup: Setup, has: Capabilities) -> Setup:
    return setup.with_fit(precision="16-mixed" if has.gpus else "bf16-mixed")


def _on_all_devices(strategy: Strategy) -> Change:
    def change(setup: Setup, has: Capabilities) -> Setup | str:
        devices = has.gpus or has.cores
        if devices == 1:
            return f"this PC has one {'GPU' if has.gpus else 'core'}"
        if has.batch_rows is None:
            return NO_BATCH_SIZE
        if strategy.startswith("deepspeed") and (fault := missing("deepspeed", "deepspeed")):
            return fault
        return setup.with_fit(strategy=strategy, devices=devices, threads=max(1, has.cores // devices))

    return change


def _compiled(setup: Setup, has: Capabilities) -> Setup:
    return setup.with_fit(compile=True)


RUNGS: Mapping[str, Change] = {
    "as given": lambda setup, has: setup,
    "more loader workers": _more_workers,
    "prepared Parquet": _prepared,
    "larger batch": _larger_batch,
    "lower precision": _lower_precision,
    "DDP on all devices": _on_all_devices("ddp"),
    "ZeRO 2 on all devices": _on_all_devices("deepspeed_stage_2"),
    "compile": _compiled,
    AGAIN: lambda setup, has: start(has),
}
