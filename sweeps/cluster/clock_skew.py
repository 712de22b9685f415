"""The difference between the clock of another PC and this PC's."""

from __future__ import annotations

from sweeps.common.formatting import duration

MAX_SKEW_S = 2.0
"""Times of trials on several PCs are compared; tokens and certificates are valid for hours."""


def skew(clock: float, asked_between: tuple[float, float]) -> float:
    """Seconds by which a clock is ahead (negative: behind), at least.

    Args:
        clock: its time in seconds since 1970.
        asked_between: the time on this PC before the clock was read, and after.
    """
    before, after = asked_between
    return max(0.0, clock - after) or min(0.0, clock - before)


def fault(seconds: float) -> str:
    """A skew in words, as `1 min 30 s ahead of this PC`; "" where it is small enough."""
    if abs(seconds) <= MAX_SKEW_S:
        return ""
    return f"{duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} this PC"
