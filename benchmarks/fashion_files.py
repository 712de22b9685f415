"""`fashion_cnn` on image files, which are prepared once: what `benchmarks.story` trains.

The network, its hyperparameters and its images are those of `trainables/fashion_cnn.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainables import fashion_cnn

if TYPE_CHECKING:
    from benchmarks._fashion_images import ColumnClassifier, ImageFilesData
    from sweeps.training import ParquetDataModule, Rows

METRIC, MODE = fashion_cnn.METRIC, fashion_cnn.MODE
PREPARE_PARAMS = ("rows",)


@dataclass(frozen=True, kw_only=True)
class Params(fashion_cnn.Params):
    """Those of `fashion_cnn`, and how its rows are loaded."""

    batch_size: int = 32
    """Rows of a batch, > 0; 32 as in PyTorch's first tutorials."""
    loader_workers: int = 0
    """Processes that read batches ahead."""


def raw_items(params: Params) -> Mapping[str, Sequence[Path]]:
    from benchmarks._fashion_images import label_files

    return label_files(params.rows)


def prepare(item: Path, params: Params) -> Iterator[Rows]:
    import numpy as np

    from benchmarks._fashion_images import listed, pixels

    images, labels = zip(*((pixels(path), label) for path, label in listed(item)), strict=True)
    yield {"image": np.stack(images), "label": np.array(labels, np.int64)}


def build_model(params: Params) -> ColumnClassifier:
    from benchmarks._fashion_images import ColumnClassifier

    net = fashion_cnn.build_model(params).net
    return ColumnClassifier(net, lr=params.lr, momentum=params.momentum, weight_decay=params.weight_decay)


def build_data(params: Params, prepared: Path) -> ParquetDataModule:
    from sweeps.training import ParquetDataModule

    return ParquetDataModule(prepared, params.batch_size, loader_workers=params.loader_workers)


def build_raw_data(params: Params, loader_workers: int) -> ImageFilesData:
    from benchmarks._fashion_images import ImageFilesData

    return ImageFilesData(raw_items(params), params.batch_size, loader_workers)
