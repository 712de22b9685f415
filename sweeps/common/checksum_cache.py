"""What files hold, as checksums that are remembered.

A checksum is remembered with the file's path, size and time of change: gigabytes that did not change are
not read twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.progress import Bar

TICK_S = 2
"""A file that changed so short a time ago may change again without another time of change."""
REMEMBER_S = 30
"""What was read is written down so often: even a power cut loses little of it."""
READERS = 4
"""Files that are read at once."""

Facts = tuple[int, int, str]
"""Size in bytes, time of change in ns, sha256."""


def of(paths: Iterable[Path], memory: Path, title: str) -> dict[Path, Facts]:
    """What the files hold; says how far it is when it takes long.

    Args:
        paths: of files.
        memory: file of checksums that are known.
        title: what is read, as `Reading raw files`.

    Raises:
        UserError: one can't be read.
    """
    known = _read(memory)
    facts = {path: _known(path, known) for path in paths}
    read = _hashed([path for path, fact in facts.items() if fact is None], memory, title)
    return {path: fact for path, fact in facts.items() if fact is not None} | read


def stat(path: Path) -> os.stat_result:
    """Of a file that was there when it was listed.

    Raises:
        UserError: it is gone, or can't be reached.
    """
    try:
        return path.stat()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def remember(memory: Path, found: Mapping[Path, Facts]) -> None:
    """What else is known stays, also what another process has learned meanwhile, mostly."""
    old_enough = (time.time() - TICK_S) * 1e9
    new = {str(path): fact for path, fact in found.items() if fact[1] < old_enough}
    if new:
        with contextlib.suppress(OSError):  # a full disk, say: they are read again the next time
            memory.parent.mkdir(parents=True, exist_ok=True)
            atomic_io.write(memory, json.dumps({**_read(memory), **new}))


def _hashed(paths: Sequence[Path], memory: Path, title: str) -> dict[Path, Facts]:
    """What the files hold; it is remembered, whatever ends the reading."""
    total = sum(stat(path).st_size for path in paths)
    found: dict[Path, Facts] = {}
    remembered = time.monotonic()
    with Bar(title, total, unit="B") as bar, ThreadPoolExecutor(READERS) as readers:
        waiting = {readers.submit(_hash, path): path for path in paths}
        try:
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                bar.add(found[waiting[done]][0])
                if time.monotonic() - remembered > REMEMBER_S:
                    remember(memory, found)
                    remembered = time.monotonic()
        finally:  # Ctrl-C, or one that can't be read: those that wait are not read any more
            readers.shutdown(wait=False, cancel_futures=True)
            remember(memory, found)
    return found


def _hash(path: Path) -> Facts:
    try:
        before = stat(path)
        with path.open("rb") as content:
            return before.st_size, before.st_mtime_ns, hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def _known(path: Path, known: Mapping[str, Sequence[Any]]) -> Facts | None:
    now = stat(path)
    fact = known.get(str(path))
    if fact is None or tuple(fact[:2]) != (now.st_size, now.st_mtime_ns):
        return None
    return now.st_size, now.st_mtime_ns, str(fact[2])


def _read(memory: Path) -> dict[str, Any]:
    try:
        content = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
