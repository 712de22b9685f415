"""The next batch for a GPU is gathered by a thread while the step is computed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
        return iter(batches)  # the step needs the cores
    return by_thread(batches, partial(torch.cuda.set_device, torch.cuda.current_device()))


def by_thread(batches: Iterable[_Batch], begin: Callable[[], object]) -> Generator[_Batch, None, None]:
    """Batches of which all but the first are made by a thread, which calls `begin` before."""
    made_one_by_one = ((batch,) for batch in batches)  # None is the end, and may be a batch
    with ThreadPoolExecutor(1, "read-ahead", begin) as thread:
        made = next(made_one_by_one, None)
        while made is not None:
            following = thread.submit(lambda: next(made_one_by_one, None))
            yield from made
            made = following.result()
