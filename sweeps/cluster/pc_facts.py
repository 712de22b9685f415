"""Versions of Python and of the packages that the result of a trial depends on."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("ray", "torch", "lightning", "optuna", "pyarrow", "numpy", "greenlet")


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """The versions on this PC, "not installed" where there is none; `more` are packages of a searcher."""
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
