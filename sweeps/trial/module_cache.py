"""The trainables that a process has imported for its trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeps.common import plugins
from sweeps.training import torch_state


class ModuleCache:
    """Imports each trainable once. Each has the settings of PyTorch as its own import left them.

    Args:
        trainables: name of each trainable in the sweep to its module path.
    """

    def __init__(self, trainables: Mapping[str, str]) -> None:
        self._paths = trainables
        self._modules: dict[str, tuple[Any, torch_state.Settings]] = {}
        self._bare = torch_state.Settings()

    def module(self, trainable: str) -> Any:
        """The module of a trainable. Imported for the first trial of it, not when the process begins: a
        trainable that can't be imported is a failed trial with a reason, not a lost process."""
        if trainable not in self._modules:
            self._bare.restore()
            torch_state.seed_again(0)  # what its import draws must not differ from process to process
            module = plugins.load(self._paths[trainable])
            self._modules[trainable] = (module, torch_state.Settings())
        module, settings = self._modules[trainable]
        settings.restore()
        return module
