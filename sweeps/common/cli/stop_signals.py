"""The signals that stop a command: the first one in order, a second Ctrl-C at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a system that shuts down, a terminal that is closed."""
_of_this_process: list[Callable[..., None]] = []
"""Handlers that a fork does not have."""
_mask = threading.local()


def of_this_process(handler: Callable[..., None]) -> Callable[..., None]:
    """A handler that forks of the user's code, as by `multiprocessing.Pool`, don't inherit: they are ended by
    SIGTERM, and their parent waits for that. What else stops it is passed over: their parent ends them."""
    _of_this_process.append(handler)
    return handler


def _block() -> None:  # for the moment of a fork: a signal that came to it now would be lost
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _let_a_fork_end() -> None:
    for name in STOPS:
        if signal.getsignal(name) in _of_this_process:
            signal.signal(name, signal.SIG_DFL if name == signal.SIGTERM else lambda *_: None)
    _unblock()


os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_let_a_fork_end)


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
    before = {name: signal.signal(name, of_this_process(on_signal)) for name in listened}
    try:
        yield come
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
            _of_this_process.remove(on_signal)


@contextlib.contextmanager
def held_back(for_s: float) -> Iterator[None]:
    """Let Ctrl-C wait for the end of a block that leaves a mess in its middle, for so many seconds at most.

    Raises:
        KeyboardInterrupt: it has come: behind the block, or in it, where that takes longer.
    """
    before, is_main = signal.getsignal(signal.SIGINT), threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:  # it interrupts none, or is handled already
        yield
        return
    until_s, has_come = time.monotonic() + for_s, False

    def on_signal(number: int, frame: Any) -> None:
        nonlocal has_come
        has_come = True
        if time.monotonic() >= until_s:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, of_this_process(on_signal))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _of_this_process.remove(on_signal)
    if has_come:
        raise KeyboardInterrupt
