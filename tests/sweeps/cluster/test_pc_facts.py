"""Versions that the result of a trial depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version

from sweeps.cluster.package_versions import PACKAGES, versions


def test_python_comes_first_and_then_each_package_with_its_own_version() -> None:
    found = versions()
    assert list(found) == ["python", *PACKAGES]
    assert (found["python"], found["ray"]) == (platform.python_version(), version("ray"))


def test_a_package_of_a_searcher_that_is_missing_is_said_to_be() -> None:
    found = versions(["no-such-package", "pytest"])
    assert (found["no-such-package"], found["pytest"]) == ("not installed", version("pytest"))
