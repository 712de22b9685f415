"""Lightning's hook `prepare_data`, which downloads: in one process of a PC at a time.

Trials run side by side, and their runs know nothing of each other.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import filelock
import lightning.pytorch as pl
from lightning.pytorch.utilities.model_helpers import is_overridden

from sweeps.common import local_dirs, project


def guard(owner: Any) -> None:
    """Let the hook of a model or a data module wait for that of other processes of this PC; None has none."""
    base = pl.LightningModule if isinstance(owner, pl.LightningModule) else pl.LightningDataModule
    if owner is not None and is_overridden("prepare_data", owner, base):
        owner.prepare_data = functools.partial(_prepare_alone, owner)


def _prepare_alone(owner: Any) -> None:
    kind = type(owner)
    folder = local_dirs.folder_of_user() / "prepare_data"
    folder.mkdir(exist_ok=True)
    name = f"{project.folder()} {kind.__module__} {kind.__qualname__}"
    with filelock.FileLock(folder / f"{hashlib.sha256(name.encode()).hexdigest()}.lock"):
        kind.prepare_data(owner)
