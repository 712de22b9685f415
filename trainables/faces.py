"""Tell real faces in videos from blended ones, as deepfake detectors do, without a labelled set.

Each face is found, cropped and measured once (`_faces/preparation.py`); a fake is then a face blended with a
moved, recoloured copy of itself (`_faces/self_blending.py`). `make faces` installs what this needs, and cuts
clips.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainables._faces.boxes import WEIGHTS
from trainables._faces.preparation import PREPARE_PARAMS as PREPARE_PARAMS
from trainables._faces.preparation import prepare as prepare
from trainables._faces.preparation import raw_items

if TYPE_CHECKING:
    from sweeps.training import ParquetDataModule
    from trainables._faces.model import FaceNet
    from trainables._faces.on_the_fly import RawFaces

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the network, of its training and of its data."""

    lr: float = 2e-3
    """AdamW step size, > 0."""
    weight_decay: float = 0.01
    """Decoupled decay of AdamW, >= 0."""
    width: int = 16
    """Channels of the first convolution, > 0; 16 is a MobileNet of half width."""
    augmentation: float = 1.0
    """Strength of the changes of light, colours, compression and noise, from 0 to 2."""
    batch_size: int = 32
    """Rows of a batch, > 0."""
    loader_workers: int = 0
    """Processes that blend and augment ahead; 0 = in the training process, at 0.6 ms an image."""
    detector: str = "mtcnn"
    """Face detector of the preparation: mtcnn, or blazeface, ten times as fast, for large faces."""
    crop_pixels: int = 96
    """Side of the stored crop, from 96."""
    frames_per_s: float = 15.0
    """Frames taken of each second of a video, > 0."""

    def __post_init__(self) -> None:
        for name in ("lr", "width", "batch_size", "frames_per_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")
        for name in ("weight_decay", "loader_workers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 0")
        if not 0 <= self.augmentation <= 2:
            raise ValueError(f"augmentation {self.augmentation}: from 0 to 2")
        if self.detector not in WEIGHTS:
            raise ValueError(f"detector {self.detector}: must be one of {', '.join(WEIGHTS)}")
        if self.crop_pixels < 96:
            raise ValueError(
                f"crop_pixels {self.crop_pixels}: at least 96: smaller crops lose the edges of blended faces"
            )


def build_model(params: Params) -> FaceNet:
    from trainables._faces.model import FaceNet  # here, not above: the plan needs Params alone

    return FaceNet(params.width, lr=params.lr, weight_decay=params.weight_decay)


def build_data(params: Params, prepared: Path) -> ParquetDataModule:
    from sweeps.training import ParquetDataModule, seed_of_run
    from trainables._faces.transform import RealOrBlended

    made = RealOrBlended(seed=seed_of_run(), augmentation=params.augmentation)
    return ParquetDataModule(
        prepared, params.batch_size, loader_workers=params.loader_workers, transform=made
    )


def build_raw_data(params: Params, loader_workers: int) -> RawFaces:
    from trainables._faces.on_the_fly import RawFaces

    return RawFaces(params, raw_items(params), loader_workers)


def describe_data(params: Params) -> str:
    from trainables._faces import preparation

    return preparation.describe(raw_items(params))
