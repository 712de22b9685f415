"""The clock of another PC, compared with this one's."""

from __future__ import annotations

from sweeps.common.formatting import duration

MAX_SKEW_S = 2.0
"""Times of trials on several PCs are compared, and tokens and certificates have hours."""


def skew(clock: float, asked_between: tuple[float, float]) -> float:
    """Seconds by which a clock is ahead (or behind: negative), at the least.

    Args:
        clock: what it showed, in seconds since 1970.
        asked_between: what this PC's showed before and after it was asked.
    """
    before, after = asked_between
    return max(0.0, clock - after) or min(0.0, clock - before)


def fault(seconds: float) -> str:
    """What is wrong with a clock of this skew; "": nothing."""
    if abs(seconds) <= MAX_SKEW_S:
        return ""
    return f"{duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} this PC"
