"""Checksums of files, cached by path, size and time of change: unchanged gigabytes are not read twice."""

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
"""Resolution of times of change: a younger file may change again without a new time, and is not cached."""
REMEMBER_S = 30
"""Seconds between two writes of the cache."""
READERS = 4
"""Files that are read at once."""

Facts = tuple[int, int, str]
"""Size in bytes, time of change in ns, sha256."""


def of(paths: Iterable[Path], memory: Path, title: str) -> dict[Path, Facts]:
    """Size, time of change and checksum of files; prints progress when it takes long.

    Args:
        paths: of files.
        memory: file of the cache.
        title: of the progress, as `Reading raw files`.

    Raises:
        UserError: one can't be read.
    """
    cached, known, unknown = _read(memory), {}, []
    for path in paths:
        now, fact = stat(path), cached.get(str(path), (None, None, ""))
        if tuple(fact[:2]) == (now.st_size, now.st_mtime_ns):
            known[path] = (now.st_size, now.st_mtime_ns, str(fact[2]))
        else:
            unknown.append(path)
    return known | _hashed(unknown, memory, title)


def stat(path: Path) -> os.stat_result:
    """The status of a listed file.

    Raises:
        UserError: it is gone, or can't be read.
    """
    try:
        return path.stat()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def remember(memory: Path, found: Mapping[Path, Facts]) -> None:
    """Add to the cache; what another process has added meanwhile mostly stays."""
    old_enough = (time.time() - TICK_S) * 1e9
    new = {str(path): fact for path, fact in found.items() if fact[1] < old_enough}
    if new:
        with contextlib.suppress(OSError):  # a full disk: the files are read again the next time
            memory.parent.mkdir(parents=True, exist_ok=True)
            atomic_io.write(memory, json.dumps({**_read(memory), **new}))


def _hashed(paths: Sequence[Path], memory: Path, title: str) -> dict[Path, Facts]:
    """Read files, and cache their checksums also when the reading is cut short."""
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
        finally:  # after Ctrl-C or an unreadable file, the waiting ones are not read
            readers.shutdown(wait=False, cancel_futures=True)
            remember(memory, found)
    return found


def sha256_of(path: Path) -> str:
    """Checksum of a file, which is read."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _hash(path: Path) -> Facts:
    try:
        before = stat(path)
        return before.st_size, before.st_mtime_ns, sha256_of(path)
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def _read(memory: Path) -> dict[str, Any]:
    try:
        content = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
