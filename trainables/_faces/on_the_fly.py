"""Faces the naive way: each sample opens its video, decodes its frame, finds the face, in every epoch anew.

What one writes first, and what the prepared rows are measured against. The same batches for the same model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import lightning.pytorch as pl
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from trainables._faces.preparation import (
    Cropper,
    Hyperparameters,
    clip_number,
    pixels_of,
    seconds_of,
    wanted_frames,
)
from trainables._faces.transform import RealOrBlended

if TYPE_CHECKING:
    from trainables._faces.boxes import Frame

Sample = dict[str, Any]


class Params(Hyperparameters, Protocol):
    """What is read of the trainable's Params."""

    @property
    def batch_size(self) -> int: ...
    @property
    def augmentation(self) -> float: ...


class RawFaces(pl.LightningDataModule):
    """Batches straight from videos.

    Args:
        params: of the trainable.
        items: split to its videos.
        loader_workers: processes that read ahead.
    """

    def __init__(self, params: Params, items: Mapping[str, Sequence[Path]], loader_workers: int) -> None:
        super().__init__()
        self.batch_size = params.batch_size
        self._params, self._items, self._loader_workers = params, items, loader_workers

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader("train")

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        return self._loader("test")

    def _loader(self, split: str) -> DataLoader[Any]:
        return DataLoader(
            RawFrames(self._params, self._items[split], split),
            self.batch_size,
            shuffle=split == "train",
            num_workers=self._loader_workers,
            persistent_workers=self._loader_workers > 0,
            collate_fn=_collated,
        )


class RawFrames(Dataset[list[Sample]]):
    """The frames of a split's videos, one by one."""

    def __init__(self, params: Params, videos: Sequence[Path], split: str) -> None:
        self._params, self._split = params, split
        self._frames = [(video, number) for video in videos for number in _frame_numbers(video, params)]
        self._made = RealOrBlended(seed=0, augmentation=params.augmentation)

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: int) -> list[Sample]:
        """A frame's face, made to train on, or, to judge by, real and blended."""
        for place in (*range(index, len(self)), *range(index)):
            video, number = self._frames[place]
            row = Cropper(self._params)([_decoded(video, number)])[0]
            if row is not None:
                return self._samples(row, (clip_number(video), number))
        raise ValueError(f"{self._params.detector} finds no face in any of the videos")

    def _samples(self, row: Mapping[str, Any], key: tuple[int, int]) -> list[Sample]:
        crop = row["face"], row["landmarks"], row["hull"]
        if self._split == "train":
            made = [self._made.to_train(*crop, (int(torch.randint(2**31, ())), *key))]
        else:
            made = self._made.to_judge(*crop, key)
        return [{"images": torch.from_numpy(image), "labels": np.float32(label)} for image, label in made]


def _collated(samples: list[list[Sample]]) -> Any:
    return default_collate([one for of_frame in samples for one in of_frame])


def _frame_numbers(path: Path, params: Params) -> range:
    import av

    with av.open(str(path)) as container:
        video = container.streams.video[0]
        seconds = seconds_of(video) or (container.duration or 0) / av.time_base
        shown = round(seconds * float(video.average_rate or 25))
        return range(0, min(video.frames or shown, shown), wanted_frames(video, params.frames_per_s))


def _decoded(path: Path, number: int) -> Frame:
    """A frame of a video: decoded from the key frame before it."""
    import av

    with av.open(str(path)) as container:
        video = container.streams.video[0]
        assert video.time_base is not None
        ticks = round(number / float(video.average_rate or 25) / float(video.time_base))
        wanted = ticks + (video.start_time or 0)
        container.seek(wanted, stream=video)
        frames = container.decode(video)
        return pixels_of(next(frame for frame in frames if frame.pts is None or frame.pts >= wanted))
