"""Fashion-MNIST as most people have their images: a PNG file each, and the labels of a folder in a CSV file.

`make_files` writes them once into the user's cache. `ImageFiles` reads them as one writes it first: each
image is opened and decoded when its row is asked for, in every epoch anew.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from sweeps.training import atomic_write, cache_dir
from trainables._shared import fashion_mnist
from trainables._shared.classifier import SgdClassifier

IMAGES_OF_FOLDER = 1_000
LABELS_FILE = "labels.csv"
SPLITS = ("train", "val", "test")


def label_files(rows: int) -> Mapping[str, Sequence[Path]]:
    """The CSV file of each folder of images, by split; the images are written if they are not there."""
    counts = (fashion_mnist.train_rows(rows), fashion_mnist.val_rows(rows), fashion_mnist.TEST_ROWS)
    return {split: make_files(split, count) for split, count in zip(SPLITS, counts, strict=True)}


def make_files(split: str, rows: int) -> list[Path]:
    """The folders that hold the first so many rows of a split; what is there stays."""
    found = []
    for first in range(0, rows, IMAGES_OF_FOLDER):
        count = min(IMAGES_OF_FOLDER, rows - first)
        folder = cache_dir() / "fashion-png" / split / f"{first:05d}-{count}"
        if not folder.exists():
            images, labels = (part[first:].numpy() for part in fashion_mnist.rows(split, first + count))
            folder.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder) as part:
                _write(part, images[:, 0], labels)
        found.append(folder / LABELS_FILE)
    return found


def _write(folder: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> None:
    folder.mkdir()
    with (folder / LABELS_FILE).open("w", newline="") as file:
        lines = csv.writer(file)
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            Image.fromarray(image).save(folder / f"{number:04d}.png")
            lines.writerow((f"{number:04d}.png", int(label)))


def listed(labels: Path) -> Iterator[tuple[Path, int]]:
    """Image and label of each line of a CSV file."""
    with labels.open(newline="") as file:
        for name, label in csv.reader(file):
            yield labels.parent / name, int(label)


def pixels(path: Path) -> npt.NDArray[np.uint8]:
    """An image [1, 28, 28]."""
    with Image.open(path) as image:
        return np.asarray(image)[None]


class ImageFiles(Dataset[dict[str, Any]]):
    """A row is an image file."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._rows = [row for labels in files for row in listed(labels)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        path, label = self._rows[row]
        return {"image": torch.from_numpy(pixels(path).astype(np.float32) / 255), "label": label}


class ImageFilesData(pl.LightningDataModule):
    """Batches straight from image files.

    Args:
        files: of each split, the CSV files.
        batch_size: rows of a batch.
        loader_workers: processes that read ahead.
    """

    def __init__(self, files: Mapping[str, Sequence[Path]], batch_size: int, loader_workers: int) -> None:
        super().__init__()
        self.batch_size, self._files, self._loader_workers = batch_size, files, loader_workers

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader("train")

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        return self._loader("test")

    def _loader(self, split: str) -> DataLoader[Any]:
        return DataLoader(
            ImageFiles(self._files[split]),
            self.batch_size,
            shuffle=split == "train",
            num_workers=self._loader_workers,
            persistent_workers=self._loader_workers > 0,
        )


class ColumnClassifier(SgdClassifier):
    """Takes batches as prepared rows come: a dict of columns."""

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return super().training_step((batch["image"], batch["label"]), index)

    def validation_step(self, batch: Any, index: int) -> None:
        super().validation_step((batch["image"], batch["label"]), index)

    def test_step(self, batch: Any, index: int) -> None:
        super().test_step((batch["image"], batch["label"]), index)
