"""The raw files of a trainable: which there are, and what they hold, as checksums.

A checksum is remembered with the file's path, size and time of change: gigabytes that did not change are
not read twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import durable
from training.bar import Bar
from training.values import DATA_DIR_VARIABLE, UserError
from training.words import count

TICK_S = 2
"""A file that changed so short a time ago may change again without another time of change."""
REMEMBER_S = 30
"""What was read is written down so often: even a power cut loses little of it."""
READERS = 4
"""Files that are read at once."""

Facts = tuple[int, int, str]
"""Size in bytes, time of change in ns, sha256."""


@dataclass(frozen=True)
class Item:
    """A raw file."""

    split: str
    name: str
    """Its path, without what lies above: see `_above`. A file's folder may say what its rows are."""
    path: Path
    size_bytes: int
    sha256: str

    @property
    def part(self) -> str:
        """What its rows are kept under while the others are prepared: of its split, name and content."""
        return hashlib.sha256(f"{self.split}/{self.name} {self.sha256}".encode()).hexdigest()


def find(asked: str, raw_items: Callable[[Any], Mapping[str, Sequence[Path]]], params: Any) -> list[Item]:
    """The raw files that a trainable lists; without checksums yet.

    Args:
        asked: the trainable, as it was named.
        raw_items: the trainable's.
        params: for it.

    Raises:
        UserError: a file is missing, or the list is none.
    """
    try:
        listed = raw_items(params)
        files = {str(split): [Path(path).absolute() for path in listed[split]] for split in listed}
    except OSError as error:
        raise UserError(str(error)) from None
    except (TypeError, AttributeError) as error:
        raise UserError(f"{asked}: raw_items must give split -> paths of files ({error})") from None
    all_files = [path for paths in files.values() for path in paths]
    listing = f"{asked}: raw_items lists"
    faults = [f"{listing} {path}, which is no file" for path in all_files if not path.is_file()]
    if not files.get("train"):
        faults.append(f'{listing} no file to train on (its split "train")')
    twice = [path for path, times in Counter(all_files).items() if times > 1]
    faults += [f"{listing} {path} twice: its rows would be in two splits, or twice in one" for path in twice]
    if faults:
        more = [f"... and {count(len(faults) - 5, 'more fault')}"] if len(faults) > 5 else []
        raise UserError("\n".join([*faults[:5], *more]))
    return [
        Item(split, path.relative_to(above).as_posix(), path, _stat(path).st_size, "")
        for split, paths in files.items()
        if paths
        for above in [_above(paths)]
        for path in sorted(paths)
    ]


def _above(paths: Sequence[Path]) -> Path:
    """What the names of a split's files leave out: all above the folder that --data-dir names, wherever in it
    files come and go; where they lie elsewhere, all above the folder that holds this split's."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    folder = Path(named).absolute() if named else None
    if folder is None or not all(path.is_relative_to(folder) for path in paths):
        folder = Path(os.path.commonpath([path.parent for path in paths]))
    return folder.parent


def with_checksums(items: Sequence[Item], memory: Path) -> list[Item]:
    """The items with the checksum of each; says how far it is when it takes long.

    Args:
        items: raw files.
        memory: file of checksums that are known.
    """
    known = _read(memory)
    facts = {item.path: _known(item.path, known) for item in items}
    facts |= _hashed([path for path, fact in facts.items() if fact is None], memory)
    return [
        Item(item.split, item.name, item.path, fact[0], fact[2])
        for item in items
        if (fact := facts[item.path]) is not None
    ]


def _hashed(paths: Sequence[Path], memory: Path) -> dict[Path, Facts]:
    """What the files hold; it is remembered, whatever ends the reading."""
    total = sum(_stat(path).st_size for path in paths)
    found: dict[Path, Facts] = {}
    remembered = time.monotonic()
    with Bar("Reading raw files", total, unit="B") as bar, ThreadPoolExecutor(READERS) as readers:
        waiting = {readers.submit(_hash, path): path for path in paths}
        try:
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                bar.add(found[waiting[done]][0])
                if time.monotonic() - remembered > REMEMBER_S:
                    _remember(memory, found)
                    remembered = time.monotonic()
        finally:  # Ctrl-C, or one that can't be read: those that wait are not read any more
            readers.shutdown(wait=False, cancel_futures=True)
            _remember(memory, found)
    return found


def _hash(path: Path) -> Facts:
    try:
        before = _stat(path)
        with path.open("rb") as content:
            return before.st_size, before.st_mtime_ns, hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:  # it was there when it was listed
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def _known(path: Path, known: Mapping[str, Sequence[Any]]) -> Facts | None:
    now = _stat(path)
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


def _remember(memory: Path, found: Mapping[Path, Facts]) -> None:
    """What else is known stays, also what another process has learned meanwhile, mostly."""
    old_enough = (time.time() - TICK_S) * 1e9
    new = {str(path): fact for path, fact in found.items() if fact[1] < old_enough}
    if new:
        with contextlib.suppress(OSError):  # a full disk, say: they are read again the next time
            memory.parent.mkdir(parents=True, exist_ok=True)
            durable.write(memory, json.dumps({**_read(memory), **new}))
