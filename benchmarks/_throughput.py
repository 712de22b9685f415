"""What comes per hour out of several processes that were not warm at the same time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def per_hour(ended: Sequence[tuple[Hashable, float]], slots: int) -> float:
    """From the process of each trial (or epoch) and when it ended, once all are warm. Each by itself: where
    they end together, wave by wave, a time for all would begin behind one wave and end before another.

    Raises:
        RuntimeError: one ended fewer than two in that time.
    """
    of: dict[Hashable, list[float]] = {}
    for process, end in sorted(ended, key=lambda one: one[1]):
        of.setdefault(process, []).append(end)
    warm = max(ends[0] for ends in of.values())
    counted = [[end for end in ends if end >= warm] for ends in of.values()]
    if len(of) < slots or min(map(len, counted)) < 2:
        raise RuntimeError(f"not all of {slots} processes trained on when all were warm: give more --waves")
    return sum(3600 * (len(ends) - 1) / (ends[-1] - ends[0]) for ends in counted)
