"""Keep the half million objects of PyTorch, Lightning and Ray from Python's garbage collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import with the collector off, then exclude the imported objects from it for good.

    Collections take a quarter of the time of `import lightning`, and 0.25 to 0.3 s after each trial.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
