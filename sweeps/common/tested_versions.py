"""The releases of PyTorch, Lightning, Ray and Optuna that this program is tested with.

`make test-matrix` tests the oldest and the newest; pyproject.toml asks pip for the same oldest ones.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from sweeps.common.errors import refuse
from sweeps.common.formatting import pip_install

TESTED = {
    "torch": ("PyTorch", "2.4", "2.15"),
    "lightning": ("Lightning", "2.5.3", "2.6"),
    "ray": ("Ray", "2.50", "2.60"),
    "optuna": ("Optuna", "4.2", "5.0"),
}
"""By their names for pip: the name in words, the oldest and the newest release.

Before Lightning 2.5.3, a trial that is resumed does not train as one that was never interrupted.
"""


def newer_than_tested() -> list[str]:
    """A line for each package that is newer than the newest tested one. Nothing is imported.

    Raises:
        UserError: one is older than the oldest, with which results would be wrong or training would fail.
    """
    faults, lines = [], []
    for package, (name, oldest, newest) in TESTED.items():
        try:
            installed = version(package)
        except PackageNotFoundError:  # files that pip has not installed, or the import says it better
            continue
        numbers = _numbers(installed)
        if numbers < _numbers(oldest):
            install = pip_install("-U", f"{package}>={oldest}")
            faults.append(f"{name} {installed} is too old; {oldest} or newer is needed: {install}")
        elif numbers[:2] > _numbers(newest):  # the third is for repairs
            lines.append(f"{name} {installed} is newer than {newest}, the newest that sweeps was tested with")
    refuse(faults)
    return lines


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]
