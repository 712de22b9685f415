"""The processes that a test has started."""

from __future__ import annotations

import contextlib

import psutil


def running(word: str) -> set[psutil.Process]:
    """Children of this process with a word in their command. One of an earlier test may have ended, with
    nobody waiting for it."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if any(word in each for each in child.cmdline()):
                found.add(child)
    return found
