"""The trainables that a process has loaded for its trials."""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.kinds import registry
from sweeps.kinds.trainable import Description, LightningTrainable
from sweeps.training import torch_state


class TrainableCache:
    """Loads each trainable once. Each has the settings of PyTorch as its own import left them.

    Args:
        trainables: name of each trainable in the sweep to its description.
    """

    def __init__(self, trainables: Mapping[str, Description]) -> None:
        self._descriptions = trainables
        self._loaded: dict[str, tuple[LightningTrainable, torch_state.Settings]] = {}
        self._bare = torch_state.Settings()

    def load(self, name: str) -> LightningTrainable:
        """The trainable of a name. Imported for the first trial of it, not when the process begins: a
        trainable that can't be imported is a failed trial with a reason, not a lost process."""
        if name not in self._loaded:
            self._bare.restore()
            torch_state.seed_again(0)  # what its import draws must not differ from process to process
            self._loaded[name] = registry.load(self._descriptions[name]), torch_state.Settings()
        trainable, settings = self._loaded[name]
        settings.restore()
        return trainable
