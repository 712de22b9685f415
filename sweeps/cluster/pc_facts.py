"""What is compared between PCs: versions of Python and of packages, and clocks."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from sweeps.common.formatting import duration

PACKAGES = ("ray", "torch", "lightning", "optuna", "pyarrow", "numpy", "greenlet")
"""Those that the result of a trial depends on."""
MAX_SKEW_S = 2.0
"""Times of trials on several PCs are compared; tokens and certificates are valid for hours."""


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """The versions on this PC, "not installed" where there is none; `more` are packages of a searcher."""
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def clock_skew_s(clock: float, asked_between: tuple[float, float]) -> float:
    """Seconds by which the clock of another PC is ahead (negative: behind), at least.

    Args:
        clock: its time in seconds since 1970.
        asked_between: the time on this PC before the clock was read, and after.
    """
    before, after = asked_between
    return max(0.0, clock - after) or min(0.0, clock - before)


def clock_fault(skew_s: float) -> str:
    """A skew in words, as `1 min 30 s ahead of this PC`; "" where it is small enough."""
    if abs(skew_s) <= MAX_SKEW_S:
        return ""
    return f"{duration(abs(skew_s))} {'ahead of' if skew_s > 0 else 'behind'} this PC"
