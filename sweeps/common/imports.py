"""Packages that this program imports: their releases, extras, large ones, Lightning by all its names."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import pip_install

DISTRIBUTION = "raysweeps"
"""The name of this program for pip."""
OF_A_CHECKOUT = "of a checkout"
"""In place of the release of files that pip has not installed, as on a PC of a cluster."""
OTHER_NAMES = {"pytorch_lightning": "lightning.pytorch", "lightning_fabric": "lightning.fabric"}
"""Packages that hold the same code as a part of Lightning, a second time."""
TESTED = {
    "torch": ("PyTorch", "2.4", "2.15"),
    "lightning": ("Lightning", "2.5.3", "2.6"),
    "ray": ("Ray", "2.50", "2.60"),
    "optuna": ("Optuna", "4.2", "5.0"),
}
"""The releases that this program is tested with, by their names for pip: the name in words, the oldest and
the newest one. `make test-matrix` tests these two; pyproject.toml asks pip for the same oldest ones.

Before Lightning 2.5.3, a trial that is resumed does not train as one that was never interrupted.
"""


def newer_than_tested() -> list[str]:
    """A line for each package that is newer than the newest tested one. Nothing is imported.

    Raises:
        UserError: one is older than the oldest, with which results would be wrong or training would fail.
    """
    faults, lines = [], []
    for package, (name, oldest, newest) in TESTED.items():
        installed = release_of(package) or newest  # where there is none, the import says it better
        if fault := too_old(package, name, oldest):
            faults.append(fault)
        elif _numbers(installed)[:2] > _numbers(newest):  # the third is for repairs
            lines.append(f"{name} {installed} is newer than {newest}, the newest that sweeps was tested with")
    refuse(faults)
    return lines


def too_old(package: str, name: str, oldest: str) -> str:
    """What to type where the installed release of a package won't do; "" where it will, or there is none."""
    installed = release_of(package) or oldest
    if _numbers(installed) >= _numbers(oldest):
        return ""
    install = pip_install("-U", f"{package}>={oldest}")
    return f"{name} {installed} is too old; {oldest} or newer is needed: {install}"


def release_of(package: str) -> str | None:
    """The installed release of a package; None where pip has installed none, as of a checkout."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def missing(package: str, extra: str) -> str:
    """What to type where a package of an extra is not installed; empty where it is."""
    if importlib.util.find_spec(package) is not None:
        return ""
    return f"{package} is not installed: {pip_install(f'{DISTRIBUTION}[{extra}]')}"


def module_command(module: str, *words: str) -> list[str]:
    """The command of a process that runs a module of this program: no file in the current folder, such as a
    `sweeps.py` of the user, hides it."""
    return [sys.executable, "-P", "-m", module, *words]


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Leave the search for cycles until the end of a block."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Import with the garbage collector off. Afterwards exclude the imported objects from it for good.

    Collections take a quarter of the time of `import lightning`. And after each trial a collection of half a
    million objects would take 0.25 to 0.3 s. What else is alive by then is excluded, too.
    """
    atexit.register(_free_triton)
    with without_garbage_collection():
        try:
            yield
        finally:
            gc.freeze()


_of_users = 0
"""Imports of users' files that have begun."""


@contextlib.contextmanager
def of_users() -> Iterator[None]:
    """Import files of the user's, which begin no sweep: it would import them again, and so without end."""
    global _of_users
    _of_users += 1
    try:
        yield
    finally:
        _of_users -= 1


def refuse_sweep() -> None:
    """Raises: UserError, within `of_users`."""
    if _of_users:
        raise UserError(
            "sweeps.run is called while the file is imported for a sweep. Put it below "
            'if __name__ == "__main__":'
        )


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
