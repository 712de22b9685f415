"""Work that is repeated as often as a share of the time allows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class TimeShare:
    """When work is due that may take a share of the time, as measured.

    Args:
        share: of the time, that the work may take.
        least_s: seconds between two turns of it, at least.
        first_s: seconds until its first turn.
        clock: in seconds.
    """

    def __init__(
        self, share: float, least_s: float, first_s: float = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._share, self._least_s, self._clock = share, least_s, clock
        self._due = clock() + first_s

    def is_due(self) -> bool:
        """Whether the work may be done now."""
        return self._clock() >= self._due

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Measure the work of a block: the next one is due when this one is the given share of the time."""
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._due = now + max(self._least_s, (now - began) / self._share)
