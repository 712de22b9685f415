"""Whether a page that a sweep has started is still used."""

from __future__ import annotations

import time
from collections.abc import Callable

from sweeps.page.page_context import PageContext
from sweeps.ray_start.ray_folder import ray_folders

UNUSED_S = 30.0
"""After the last use it ends: a page that is loaded anew, or a sweep that follows another one, is a use."""


class Usage:
    """Of a page: somebody looks at it, one of its sweeps runs, or `sweeps up` keeps this PC ready.

    Args:
        page: the page.
        clock: seconds.
    """

    def __init__(self, page: PageContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._page, self._clock = page, clock
        self._used = clock()

    def has_ended(self) -> bool:
        """Whether nobody has used it for some time."""
        runs = self._page.sweeps.is_any_running()
        stays = any(each.stays and each.state() is not None for each in ray_folders())
        if self._page.listeners.number or runs or stays:
            self._used = self._clock()
        return self._clock() > self._used + UNUSED_S
