"""Run a sweep: `sweeps run --trainable fashion_cnn --num-trials 24`

All flags: `sweeps run --help`. Exit status: 0, a trial that did not fail has a score; 1, none has; 2, a
user's mistake; 130, Ctrl-C.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import ModuleType

import sweeps
from sweeps.common.cli.dispatch import status_of
from sweeps.config import cli
from sweeps.sweep_start import start


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    try:
        return status_of(lambda: start(cli.parse(arguments)))
    finally:
        gc.freeze()  # at its exit, Python would look through all objects once more: half a second


class _Callable(ModuleType):
    """This module, whose import hides the function `sweeps.run` by its name: it can be called like that."""

    __call__ = staticmethod(sweeps.run)


if __name__ == "__main__":
    sys.exit(main())
sys.modules[__name__].__class__ = _Callable
