"""One run, as fast as the hardware allows; the names below are for trainables, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeps.common.atomic_io import atomic_write as atomic_write
    from sweeps.common.errors import CannotTrain as CannotTrain
    from sweeps.common.local_dirs import cache_dir as cache_dir
    from sweeps.common.local_dirs import data_dir as data_dir
    from sweeps.training.data.datamodule import Columns as Columns
    from sweeps.training.data.datamodule import ParquetDataModule as ParquetDataModule
    from sweeps.training.data.datamodule import read_ahead as read_ahead
    from sweeps.training.data.datamodule import seed_of_run as seed_of_run
    from sweeps.training.data.shards import Rows as Rows

_HOMES = {
    "atomic_write": "sweeps.common.atomic_io",
    "cache_dir": "sweeps.common.local_dirs",
    "CannotTrain": "sweeps.common.errors",
    "Columns": "sweeps.training.data.datamodule",
    "ParquetDataModule": "sweeps.training.data.datamodule",
    "Rows": "sweeps.training.data.shards",
    "data_dir": "sweeps.common.local_dirs",
    "read_ahead": "sweeps.training.data.datamodule",
    "seed_of_run": "sweeps.training.data.datamodule",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Import on first use: PyTorch takes seconds, and a plan needs none of it (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
