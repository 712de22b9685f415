"""Stored crops as batches to train on: half of them real, half of them blended with themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps.training import Columns
from trainables._faces.self_blending import augmentation, blended


@dataclass(frozen=True)
class RealOrBlended:
    """Turns stored rows into `images` [n, pixels, pixels, 3] uint8 and `labels` [n] float32: 1 = blended.

    To train, each row is one or the other, then augmented. To validate and to test, each is there twice,
    real and blended, and always the same, whatever the seed. What a row becomes to train on depends on seed,
    epoch and row alone.
    """

    seed: int
    augmentation: float
    """Strength: see `augmentation`."""

    def __call__(self, split: str, epoch: int, rows: Columns) -> Columns:
        """A batch of a split."""
        made: list[tuple[Any, float]] = []
        for face, landmarks, hull, clip, frame in zip(
            *(rows[name] for name in ("face", "landmarks", "hull", "clip", "frame")), strict=True
        ):
            row = int(clip), int(frame)
            if split == "train":
                made.append(self.to_train(face, landmarks, hull, (self.seed, epoch, *row)))
            else:
                made += self.to_judge(face, landmarks, hull, row)
        images, labels = zip(*made, strict=True)
        return {"images": np.stack(images), "labels": np.array(labels, np.float32)}

    def to_train(self, face: Any, landmarks: Any, hull: Any, seed: tuple[int, ...]) -> tuple[Any, float]:
        """A real or a blended face, augmented, and which it is."""
        random = np.random.default_rng(seed)
        is_blended = random.random() < 0.5
        image = blended(face, landmarks, hull, random) if is_blended else face
        augment = augmentation(self.augmentation)
        augment.set_random_seed(int(random.integers(2**31)))
        return augment(image=image)["image"], float(is_blended)

    def to_judge(
        self, face: Any, landmarks: Any, hull: Any, seed: tuple[int, ...]
    ) -> list[tuple[Any, float]]:
        """The face as it is, and the fake that is always made of it."""
        fake = blended(face, landmarks, hull, np.random.default_rng(seed))
        return [(face, 0.0), (fake, 1.0)]
