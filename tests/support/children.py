"""The processes that a test has started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil


def running(word: str, among: Iterable[psutil.Process] | None = None) -> set[psutil.Process]:
    """Children of this process, or others, with a word in their command. One may have ended, with nobody
    waiting for it."""
    found = set()
    for child in psutil.Process().children() if among is None else among:
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if any(word in each for each in child.cmdline()):
                found.add(child)
    return found
