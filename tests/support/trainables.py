"""Modules, and functions alone, as trainables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sweeps.kinds.lightning import LightningFile
from sweeps.kinds.trainable import Description

if TYPE_CHECKING:
    import lightning.pytorch as pl

    from sweeps.training.runs.fit_loop import Fit


def as_trainable(module: Any, name: str = "toy") -> LightningFile:
    """The trainable of a module, or of an object with some of what the file of a trainable defines."""
    own = {entry: getattr(module, entry) for entry in dir(module) if not entry.startswith("__")}
    return LightningFile(name, SimpleNamespace(**{**DEFAULTS, "__name__": f"toys.{name}", **own}))


def described(path: str, name: str = "") -> Description:
    """Of the trainable in the file of a dotted path."""
    return Description(LightningFile.kind, name or path, path)


def run_through(
    training: Fit, heard: Callable[[Any], object] = lambda found: True, callbacks: Sequence[pl.Callback] = ()
) -> None:
    """Train to the end, or until what is called with each epoch, and with a position where the run is left,
    returns False."""
    training.callbacks += callbacks
    while (found := training.advance()) is not None and heard(found):
        pass
    training.close()


DEFAULTS: dict[str, Any] = {"METRIC": "val_acc", "MODE": "max", "Params": SimpleNamespace, "build_data": None}
"""What a test need not give."""
