"""Imports PyTorch, Lightning and Ray in two thirds of the time, and Lightning by all its names as one."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

TORCHMETRICS, LEFT_OUT = "torchmetrics", "scipy.signal"
OTHER_NAMES = {"pytorch_lightning": "lightning.pytorch", "lightning_fabric": "lightning.fabric"}
"""Packages that hold the same code as a part of Lightning, a second time."""


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Import with the garbage collector off, and torchmetrics without SciPy. Afterwards exclude the imported
    objects from the collector for good.

    Collections take a quarter of the time of `import lightning`, SciPy a fifth of the rest. And after each
    trial a collection of half a million objects would take 0.25 to 0.3 s. What else is alive by then is
    excluded, too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with _asked_first(_Finder()):
            yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def without(*packages: str) -> Iterator[None]:
    """Import in this thread as if some packages were not installed, unless they have been imported.

    For what is optional to the imported: the library then says of its functions that need them that they are
    not there, until the end of this process. So this is for programs of this package; a user's own program
    gets libraries whole.
    """
    with _asked_first(_NotFound(packages, threading.get_ident())):
        yield


def unite_lightning() -> None:
    """Make `pytorch_lightning` another name of `lightning.pytorch` in this process, installed or not.

    Half of the projects and libraries import Lightning by that name. It is the same code, but other classes:
    the Trainer of one package takes no LightningModule of the other. Where the package has been imported
    already, it stays what it is.
    """
    if not any(isinstance(each, _OtherNames) for each in sys.meta_path):
        sys.meta_path = [_OtherNames(), *sys.meta_path]


@contextlib.contextmanager
def _asked_first(finder: MetaPathFinder) -> Iterator[None]:
    """Each time a new list: another thread that goes through the old one would miss a finder."""
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [each for each in sys.meta_path if each is not finder]


class _OtherNames(MetaPathFinder, Loader):
    """Finds OTHER_NAMES and the modules in them; Lightning itself is imported when one of them is."""

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        package, _dot, inner = fullname.partition(".")
        name = OTHER_NAMES.get(package)
        if name is None or (inner and sys.modules.get(package) is not sys.modules.get(name)):
            return None
        is_there = not inner or importlib.util.find_spec(f"{name}.{inner}") is not None
        return ModuleSpec(fullname, self, is_package=not inner) if is_there else None

    def exec_module(self, module: ModuleType) -> None:
        package, dot, inner = module.__name__.partition(".")
        sys.modules[module.__name__] = importlib.import_module(f"{OTHER_NAMES[package]}{dot}{inner}")


class _NotFound(MetaPathFinder):
    def __init__(self, packages: Sequence[str], thread: int) -> None:
        self._packages, self._thread = packages, thread

    def find_spec(self, fullname: str, *_: Any) -> None:
        if fullname in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is left out of this program", name=fullname)


class _Finder(MetaPathFinder):
    """Finds torchmetrics, which Lightning imports. It imports `scipy.signal`, and thus most of SciPy, only to
    give it its old name `hamming`, for a program of its tests. `scipy.signal` goes without that name here.
    https://github.com/Lightning-AI/torchmetrics/issues/3457
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == TORCHMETRICS else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        stand_in = _StandIn(LEFT_OUT)
        sys.modules.setdefault(LEFT_OUT, stand_in)
        try:
            super().exec_module(module)
        finally:
            stand_in.leave()


class _StandIn(ModuleType):
    """In the place of `scipy.signal` while torchmetrics is imported. It has the old name; who wants another
    one has the real module imported. A package that keeps it gets all names of the real one from it."""

    @staticmethod
    def hamming(*arguments: Any, **options: Any) -> Any:
        return importlib.import_module(f"{LEFT_OUT}.windows").hamming(*arguments, **options)

    def leave(self) -> None:
        if sys.modules.get(LEFT_OUT) is self:
            sys.modules.pop(LEFT_OUT, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # `inspect` asks each module for its file
            raise AttributeError(name)
        self.leave()
        return getattr(importlib.import_module(LEFT_OUT), name)
