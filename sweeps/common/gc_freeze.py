"""Importing PyTorch, Lightning and Ray makes half a million objects that stay: spare the collector them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import without Python's collector, then take what was imported out of its sight for good.

    The collector would walk all modules again and again while they are imported (a quarter of the
    time of `import lightning`), and once more after each trial, to find that none can go (0.25 to 0.3 s).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
