"""The next batch for a GPU is gathered by a thread while the step is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Batch = TypeVar("_Batch")


def read_ahead(batches: Iterable[_Batch]) -> Iterator[_Batch]:
    """The same batches in the same order. One is ready when a step ends, where this process uses a GPU.

    For the `__iter__` of a loader. The first batch is made by the caller's thread, which may draw the order
    of the epoch; no other one may draw from a generator of the process, or a resumed run would go on with
    other numbers. If the loader has a state, it counts what is handed out here, not what was read ahead.
    """
    if not torch.cuda.is_available():
        yield from batches  # the step needs the cores
        return
    source, device, missing = iter(batches), torch.cuda.current_device(), object()
    with ThreadPoolExecutor(1, "read-ahead", torch.cuda.set_device, (device,)) as thread:
        batch: _Batch | object = next(source, missing)
        while batch is not missing:
            following = thread.submit(next, source, missing)
            yield batch  # type: ignore[misc]
            batch = following.result()
