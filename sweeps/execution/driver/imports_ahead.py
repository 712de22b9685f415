"""Imports for later, while the first trials train."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Sequence
from typing import Any

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.run_context import DriverCallback

OF_REPORT = ("sweeps.analysis.report.lean",)
OF_MODELS = ("sklearn.gaussian_process",)
"""What proposals need that are modelled: a second of a core, for which processes that have no trial would
wait."""


def of_sweep(config: SweepConfig) -> Sequence[str]:
    """The modules that a sweep needs later."""
    learns_where_trials_fit = bool(config.constraints) and config.searcher not in ("random", "grid")
    return (*(OF_MODELS if config.searcher == "gp" or learns_where_trials_fit else ()), *OF_REPORT)


class ImportsAhead(DriverCallback):
    """Imports modules in a thread from the first result on: before it, the trials' processes need the cores.

    Args:
        modules: their names; one that can't be imported is told where it is needed.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self.thread: threading.Thread | None = None

    def on_trial_result(self, *_: Any, **__: Any) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self._import, name="imports ahead", daemon=True)
            self.thread.start()

    def _import(self) -> None:
        for name in self._modules:
            with contextlib.suppress(Exception):  # of whatever a broken package raises
                importlib.import_module(name)
