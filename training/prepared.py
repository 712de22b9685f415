"""Prepared data as training finds it: where it lies, and whether it is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.config import CannotTrain, Trainable

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule


def has_preparation(trainable: Any) -> bool:
    """Whether its raw data is prepared before it trains."""
    return hasattr(trainable, "prepare")


def build_data(trainable: Trainable, params: Any, folder: Path | None) -> LightningDataModule:
    """The trainable's data module; one whose data is prepared gets the folder of it.

    Raises:
        CannotTrain: there is no folder, and it needs one.
    """
    if not has_preparation(trainable):
        return trainable.build_data(params)
    if folder is None:
        raise CannotTrain("this trainable reads prepared data, and no folder of it was given")
    return trainable.build_data(params, folder)
