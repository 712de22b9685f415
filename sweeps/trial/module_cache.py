"""What a process imports once for all of its trials: the code that trains, and their trainables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sweeps.common import gc_freeze, plugins

if TYPE_CHECKING:
    from sweeps.training.torch_state import Settings


class Warm:
    """The trainables of a process. Each finds the settings of PyTorch as its own import left them.

    Args:
        trainables: as they were named, to their module paths.
    """

    def __init__(self, trainables: Mapping[str, str]) -> None:
        self._paths = trainables
        self._modules: dict[str, tuple[Any, Settings]] = {}
        self._bare: Settings | None = None
        self._training: Any = None
        self._memory: Any = None

    def module(self, trainable: str) -> Any:
        """The module of a trainable. Imported here, not when the process begins: one that can't be imported
        is a failed trial with its reason, not a process that dies."""
        if trainable not in self._modules:
            with gc_freeze.uncollected():
                self._import(trainable)
        module, settings = self._modules[trainable]
        settings.put_back()
        return module

    def fit(self, *arguments: Any, **more: Any) -> Any:
        """A `sweeps.training.fit_loop.Fit`; a module was asked for before."""
        return self._training.Fit(*arguments, **more)

    def free(self) -> None:
        """Give back the memory of a trial that has ended."""
        if self._memory is not None:
            self._memory.free()

    def _import(self, trainable: str) -> None:
        from sweeps.training import fit_loop, torch_state
        from sweeps.training.profiling import memory

        if self._bare is None:
            self._training, self._memory = fit_loop, memory
            self._bare = torch_state.Settings.now()
        self._bare.put_back()
        module = plugins.load(self._paths[trainable])
        self._modules[trainable] = (module, torch_state.Settings.now())
