"""The signal by which a trial's process is told to leave its run at the next step.

Tune calls a trial's process only between two epochs, so the sweep sends a signal, on the PC of the process.
SIGTERM does the same: a machine that shuts down sends it to every process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

SIGNAL = signal.SIGUSR2
_SIGNALS = (SIGNAL, signal.SIGTERM)
_is_asked = False


def listen() -> None:
    """Note the signals from now on. Python then handles them between two of its own instructions; a system
    call of a library that is interrupted begins again."""
    for each in _SIGNALS:
        signal.signal(each, _note)
        signal.siginterrupt(each, False)


def is_asked() -> bool:
    """Whether to leave the run."""
    return _is_asked


def forget() -> None:
    """Begin another trial."""
    global _is_asked
    _is_asked = False


def send(pids: Sequence[int]) -> None:
    """Ask processes of this PC; one that has ended is left out."""
    for pid in pids:
        try:
            os.kill(pid, SIGNAL)
        except ProcessLookupError:
            continue


def _note(number: int, frame: Any) -> None:
    global _is_asked
    _is_asked = True
