"""How a trial's process is asked to leave its run at the next step: to save it, and go.

Tune calls a trial's process only between two epochs, so the sweep sends a signal to a process of its own PC,
and a message to one of another PC. SIGTERM does the same as the signal: a machine that shuts down sends it to
every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections import defaultdict
from typing import Any

import ray
from ray.exceptions import RayError

from sweeps.common.cli import stop_signals

SIGNAL = signal.SIGUSR2
_SIGNALS = (SIGNAL, signal.SIGTERM)
_is_asked = _is_terminated = False


class Mailbox:
    """A Ray actor beside the sweep, from which the processes of other PCs take their messages: a PC that is
    being drained takes no new task, but the calls of its processes are answered."""

    def __init__(self) -> None:
        self._asked: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def ask(self, process: str) -> None:
        """Ask a process to leave its run."""
        self._asked[process].set()

    async def next(self, process: str) -> None:
        """Wait until a process is asked to leave its run."""
        event = self._asked[process]
        await event.wait()
        event.clear()


def listen(mailbox: Any = None, process: str = "") -> None:
    """Note the signals from now on, and the messages of a mailbox. Python handles signals between two of its
    own instructions; a system call of a library that is interrupted begins again."""
    for each in _SIGNALS:
        signal.signal(each, _note)
        signal.siginterrupt(each, False)
    if mailbox is not None:
        threading.Thread(target=_read, args=(mailbox, process), daemon=True).start()


def is_asked() -> bool:
    """Whether to leave the run."""
    return _is_asked


def is_terminated() -> bool:
    """Whether that was by SIGTERM. The processes that the training has started got it, too: that they have
    ended is no failure of it."""
    return _is_terminated


def forget() -> None:
    """Begin another trial."""
    global _is_asked, _is_terminated
    _is_asked = _is_terminated = False


def send(pid: int) -> None:
    """Ask a process of this PC, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, SIGNAL)


@stop_signals.of_this_process
def _note(number: int = 0, frame: Any = None) -> None:
    global _is_asked, _is_terminated
    _is_asked, _is_terminated = True, _is_terminated or number == signal.SIGTERM


def _read(mailbox: Any, process: str) -> None:
    while True:
        try:
            ray.get(mailbox.next.remote(process))
        except (RayError, SystemExit):  # the sweep has ended, or this process does
            return
        _note()
