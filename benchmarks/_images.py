"""The same images in each form that a loader reads: files, one array, a litdata set, Parquet shards.

Crops of the two photographs that scikit-learn brings, so that decoding costs what it costs of photographs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.training.data import shards
from sweeps.training.data.shards import Column, Manifest

SHARDS = 4
LITDATA_CHUNK = "64MB"

Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Images:
    """Square color images, and where their files are."""

    folder: Path
    side: int
    """Pixels."""
    rows: int
    files: int
    """How many of them also are image files: a file system bears less than an array."""

    @property
    def row_bytes(self) -> int:
        """Of an image."""
        return self.side**2 * 3

    @cached_property
    def array(self) -> Array:
        """All of them, in memory [rows, side, side, 3]."""
        from sklearn.datasets import load_sample_images

        photographs, random = load_sample_images().images, np.random.default_rng(0)
        found = np.empty((self.rows, self.side, self.side, 3), np.uint8)
        for row in range(self.rows):
            photograph = photographs[row % len(photographs)]
            top, left = (random.integers(0, size - self.side) for size in photograph.shape[:2])
            found[row] = photograph[top : top + self.side, left : left + self.side]
        return found

    @cached_property
    def labels(self) -> npt.NDArray[np.int64]:
        """A number for each [rows]."""
        return np.arange(self.rows) % 10

    def mapped(self) -> Array:
        """The same bytes in a file and nothing else, mapped."""
        path = self.folder / "raw.bin"
        if not path.exists():
            self.array.tofile(path)
        return np.memmap(path, np.uint8, mode="r", shape=self.array.shape)

    def paths(self) -> list[Path]:
        """PNG files."""
        from PIL import Image

        folder = self.folder / "png"
        paths = [folder / f"{row:06d}.png" for row in range(self.files)]
        if not folder.exists():
            folder.mkdir()
            for path, image in zip(paths, self.array, strict=False):
                Image.fromarray(image).save(path)
        return paths

    def parquet(self) -> Path:
        """A data set as `ParquetDataModule` reads it; `val` is the same rows, read in order."""
        folder = self.folder / "parquet"
        if not folder.exists():
            columns = {"image": Column("uint8", (self.side, self.side, 3)), "label": Column("int64")}
            written = []
            for number, rows in enumerate(np.array_split(np.arange(self.rows), SHARDS)):
                part: shards.Rows = {"image": self.array[rows], "label": self.labels[rows]}
                written.append(shards.write_shard(folder, f"rows-{number}.parquet", part, columns))
            Manifest(columns=columns, splits={"train": written, "val": written}).write(folder)
        return folder

    def litdata(self) -> Path:
        """A data set as litdata streams it."""
        from litdata.streaming import Cache

        folder = self.folder / "litdata"
        if not folder.exists():
            folder.mkdir()
            cache: Any = Cache(str(folder), chunk_bytes=LITDATA_CHUNK)
            for row, (image, label) in enumerate(zip(self.array, self.labels, strict=True)):
                cache[row] = {"image": image, "label": int(label)}
            cache.done()
            cache.merge()
        return folder
