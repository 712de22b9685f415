"""Packages of extras; large ones, in three quarters of the time; Lightning, by all its names as one."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from sweeps.common.formatting import pip_install

DISTRIBUTION = "raysweeps"
"""The name of this program for pip."""
OTHER_NAMES = {"pytorch_lightning": "lightning.pytorch", "lightning_fabric": "lightning.fabric"}
"""Packages that hold the same code as a part of Lightning, a second time."""


def missing(package: str, extra: str) -> str:
    """What to type where a package of an extra is not installed; empty where it is."""
    if importlib.util.find_spec(package) is not None:
        return ""
    return f"{package} is not installed: {pip_install(f'{DISTRIBUTION}[{extra}]')}"


def module_command(module: str, *words: str) -> list[str]:
    """The command of a process that runs a module of this program: no file in the current folder, such as a
    `sweeps.py` of the user, hides it.

    Args:
        module: `sweeps`, or one of its modules.
        words: behind it.
    """
    return [sys.executable, "-P", "-m", module, *words]


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Import with the garbage collector off. Afterwards exclude the imported objects from it for good.

    Collections take a quarter of the time of `import lightning`. And after each trial a collection of half a
    million objects would take 0.25 to 0.3 s. What else is alive by then is excluded, too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    atexit.register(_free_triton)
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def _free_triton() -> None:
    """Let Python collect what Triton has made by nanobind, which else prints at the exit that it leaks."""
    if "triton" in sys.modules:
        gc.unfreeze()


def unite_lightning() -> None:
    """Make `pytorch_lightning` another name of `lightning.pytorch` in this process, installed or not.

    Half of the projects and libraries import Lightning by that name. It is the same code, but other classes:
    the Trainer of one package takes no LightningModule of the other. Where the package has been imported
    already, it stays what it is.
    """
    if not any(isinstance(each, _OtherNames) for each in sys.meta_path):
        sys.meta_path = [_OtherNames(), *sys.meta_path]


class _OtherNames(MetaPathFinder, Loader):
    """Finds OTHER_NAMES and the modules in them; Lightning itself is imported when one of them is."""

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        package, _dot, inner = fullname.partition(".")
        name = OTHER_NAMES.get(package)
        if name is None or (inner and sys.modules.get(package) is not sys.modules.get(name)):
            return None
        if inner and importlib.util.find_spec(f"{name}.{inner}") is None:
            used = f"{package} is {name} of lightning {metadata.version('lightning')} in this program"
            raise ModuleNotFoundError(f"No module named {fullname!r}: {used}", name=fullname)
        return ModuleSpec(fullname, self, is_package=not inner)

    def exec_module(self, module: ModuleType) -> None:
        package, dot, inner = module.__name__.partition(".")
        sys.modules[module.__name__] = importlib.import_module(f"{OTHER_NAMES[package]}{dot}{inner}")
