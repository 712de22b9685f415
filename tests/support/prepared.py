"""Prepared data for a test, made in this process: the pipeline, which needs Ray, has tests of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.training.data.shards import Manifest, columns_of, write_shard


def prepare_small(
    module: Any, params: Any, folder: Path, items: Mapping[str, Sequence[Path]] | None = None
) -> Path:
    """All rows of the raw files of a trainable; by default of the first one of each split."""
    folder.mkdir(exist_ok=True)
    if items is None:
        items = {split: files[:1] for split, files in module.raw_items(params).items()}
    splits, columns = {}, {}
    for split, files in items.items():
        blocks = [block for file in files for block in module.prepare(file, params)]
        rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        columns = columns_of(rows)
        splits[split] = [write_shard(folder, f"{split}-0.parquet", rows, columns)]
    Manifest(columns=columns, splits=splits).write(folder)
    return folder
