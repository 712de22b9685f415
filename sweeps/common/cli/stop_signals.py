"""The signals that stop a command: the first one in order, a second Ctrl-C at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a system that shuts down, a terminal that is closed."""


@contextlib.contextmanager
def handled(stop: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> Iterator[Sequence[int]]:
    """Call `stop` at the first signal, and raise KeyboardInterrupt at the second Ctrl-C. A SIGTERM that
    follows changes nothing: `timeout` and others send it twice.

    Yields:
        The first signal, once it has come.
    """
    first_s: float | None = None
    come: list[int] = []

    def on_signal(number: int, frame: Any) -> None:
        nonlocal first_s
        if first_s is not None:
            # Within a second it is the same Ctrl-C: some launchers pass it on a second time.
            if number == signal.SIGINT and clock() >= first_s + 1:
                raise KeyboardInterrupt
            return
        first_s = clock()
        come.append(number)
        if number == signal.SIGHUP:  # writing to a closed terminal raises
            for terminal in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)
        stop()

    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
    listened = [name for name in STOPS if signal.getsignal(name) != signal.SIG_IGN]  # nohup ignores one
    before = {name: signal.signal(name, on_signal) for name in listened}
    try:
        yield come
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
