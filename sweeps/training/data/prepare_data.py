"""Lightning's hook `prepare_data`, which downloads: in one process of a PC at a time, and once where nothing
changed.

Lightning calls it in each run, of the data module and of the model. Trials run side by side, and their runs
know nothing of each other.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

import filelock
import lightning.pytorch as pl
from lightning.pytorch.utilities.model_helpers import is_overridden

from sweeps.common import atomic_io, machine_folders, project

MOST_DONE = 1000
"""Calls that are remembered of each class."""
_PLAIN = (str, bytes, int, float, bool, type(None), Path)


def guard(owner: Any, run: str = "") -> None:
    """Let the hook of a model or a data module wait for that of other processes of this PC.

    Args:
        owner: the model or the data module; None where the model has the loaders.
        run: of a sweep, in which the hook is called once for the same attributes; "": it is called each time.
    """
    base = pl.LightningModule if isinstance(owner, pl.LightningModule) else pl.LightningDataModule
    if owner is not None and is_overridden("prepare_data", owner, base):
        owner.prepare_data = functools.partial(_prepare_alone, owner, base, run)


def _prepare_alone(owner: Any, base: type, run: str) -> None:
    kind = type(owner)
    folder = machine_folders.of_this_user() / "prepare_data"
    folder.mkdir(exist_ok=True)
    done = folder / _digest(project.folder(), kind.__module__, kind.__qualname__)
    with filelock.FileLock(f"{done}.lock"):  # the system releases a killed process's lock
        before = done.read_text().splitlines() if done.is_file() else []
        given = _attributes(owner, base)
        known = _digest(run, given) if run and given else ""
        if known in before:
            return
        of_class = {name: id(value) for name, value in vars(kind).items()}
        kind.prepare_data(owner)
        # What it has set in this process, it must set in each.
        is_unchanged = of_class == {name: id(value) for name, value in vars(kind).items()}
        if known and is_unchanged and _attributes(owner, base) == given:
            atomic_io.write(done, "\n".join([*before[-MOST_DONE:], known]))


def _attributes(owner: Any, base: type) -> str:
    """What the hook may read of its object; "" where that can't be compared with another process's."""
    others = {*vars(base()), "prepare_data", "_hparams"}
    own = {
        name: value
        for name, value in vars(owner).items()
        if name not in others and not isinstance(value, functools.partial)  # a hook, as this one
    }
    own |= {"hparams": dict(owner.hparams)}
    if isinstance(owner, pl.LightningModule):
        own |= {"parts": [name for name, _ in (*owner.named_modules(), *owner.named_parameters())]}
    return repr(own) if _is_plain(own) else ""


def _is_plain(value: Any) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(_is_plain(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
