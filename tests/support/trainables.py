"""Modules, and functions alone, as trainables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sweeps.kinds.lightning import KIND, LightningFile
from sweeps.kinds.trainable import Description


def as_trainable(module: Any, name: str = "toy") -> LightningFile:
    """The trainable of a module, or of an object with some of what the file of a trainable defines."""
    own = {entry: getattr(module, entry) for entry in dir(module) if not entry.startswith("__")}
    return LightningFile(name, SimpleNamespace(**{**DEFAULTS, "__name__": f"toys.{name}", **own}))


def described(path: str, name: str = "") -> Description:
    """Of the trainable in the file of a dotted path."""
    return Description(KIND, name or path, path)


DEFAULTS: dict[str, Any] = {"METRIC": "val_acc", "MODE": "max", "Params": SimpleNamespace, "build_data": None}
"""What a test need not give."""
