"""Watches the Ray of this PC: where it ends, the sweep is interrupted."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray

from sweeps.common.errors import RayLost
from sweeps.ray_start import ray_connection

LOST_SIGNAL = signal.SIGUSR2
"""To this process by itself, when Ray has ended. (Tune handles SIGUSR1.)"""
INTERRUPTS_S = 10.0
"""After which the main thread is in a call of Ray's that waits for a process that is gone."""


class RayWatch:
    """Watches some of Ray's processes while a block of the main thread needs them.

    Args:
        processes: their ids by their names; none of a cluster.
    """

    def __init__(self, processes: Mapping[str, int] = {}) -> None:
        self._processes = processes
        self._is_needed = False
        self._is_interrupted = threading.Event()
        self.lost = ""
        """Why this Ray has ended while it was needed; "" where it has not."""

    @contextlib.contextmanager
    def needed(self, last_words: Callable[[], None]) -> Iterator[None]:
        """Interrupt a block of the main thread, as Ctrl-C does, when one of Ray's own processes ends.

        Ray would let the block wait, and end this whole process after some seconds, without a word. Where it
        has ended it is shut down with the block.

        Args:
            last_words: called in another thread where the block is in a call of Ray's that nothing
                interrupts; then this process ends with status 1.

        Raises:
            RayLost: it has ended, and the block has not dealt with that (see `lost`).
        """
        signal.signal(LOST_SIGNAL, self._interrupt)
        self._is_needed = True
        words = (threading.get_ident(), last_words)
        threading.Thread(target=self._watch, args=words, daemon=True).start()
        try:
            yield
        except BaseException:
            if self.lost:
                raise RayLost(self.lost) from None
            raise
        finally:
            self._is_needed = False
            if self.lost:
                ray_connection.shut_down(ray)

    def _watch(self, main_thread: int, last_words: Callable[[], None]) -> None:
        """Wait for the end of one of Ray's processes."""
        watched: dict[int, str] = {}
        gone = ""
        try:
            for name, pid in self._processes.items():
                try:
                    watched[os.pidfd_open(pid)] = name
                except ProcessLookupError:
                    gone = name
            if not gone and watched:
                gone = watched[select.select([*watched], [], [])[0][0]]
        except OSError:  # an old kernel, or a sandbox, opens none: the sweep goes on without this watch
            return
        finally:
            for descriptor in watched:
                os.close(descriptor)
        if gone and self._is_needed:
            why = f"its process {gone} is gone: the kernel ends one where memory runs out"
            self.lost = f"Ray on this PC has ended ({why})"
            signal.pthread_kill(main_thread, LOST_SIGNAL)
            if not self._is_interrupted.wait(INTERRUPTS_S):
                try:
                    last_words()
                finally:
                    os._exit(1)  # with which all that it has started ends

    def _interrupt(self, *_: Any) -> None:
        if not self.lost:  # it came from outside
            return
        self._is_interrupted.set()
        if self._is_needed:
            raise KeyboardInterrupt  # the only exception that a wait of Ray's lets through
