"""The raw files of a trainable, and their checksums."""

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

from sweeps.common import atomic_io, local_dirs
from sweeps.common.cli.terminal import Bar
from sweeps.common.errors import UserError
from sweeps.common.formatting import count

HASH_THREADS = 4
"""Files that are read at once."""
Facts = tuple[int, int, str]
"""Size in bytes, time of change in ns, sha256."""


@dataclass(frozen=True)
class Item:
    """A raw file."""

    split: str
    name: str
    """Its path relative to `_above`; folders may carry meaning, such as a class."""
    path: Path
    size_bytes: int
    sha256: str
    time_ns: int = 0

    def is_as_listed(self) -> bool:
        """Whether this PC has the file with that content, by its size and time, or else by its checksum."""
        found = self.path.stat()
        is_known = (found.st_size, found.st_mtime_ns) == (self.size_bytes, self.time_ns)
        return is_known or atomic_io.sha256_of(self.path) == self.sha256

    @property
    def part(self) -> str:
        """Name of the file of its rows: a checksum of its split, name and content."""
        content = f"{self.split}/{self.name} {self.sha256}"
        return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


def find(
    asked: str, raw_items: Callable[[Any], Mapping[str, Sequence[Path]]], params: Any, memory: Path
) -> list[Item]:
    """The raw files that `raw_items(params)` lists.

    Args:
        asked: the trainable, as the user named it.
        memory: file of known checksums: unchanged gigabytes are not read twice.

    Raises:
        UserError: a file is missing or can't be read, or the result is not a list of files.
    """
    try:
        listed = raw_items(params)
        files = {str(split): [Path(path).absolute() for path in listed[split]] for split in listed}
    except OSError as error:
        raise UserError(str(error)) from None
    except (TypeError, AttributeError) as error:
        raise UserError(f"{asked}: raw_items must return split -> paths of files ({error})") from None
    times = Counter(path for paths in files.values() for path in paths)
    listing = f"{asked}: raw_items lists"
    faults = [f"{listing} {path}, which is not a file" for path in times.elements() if not path.is_file()]
    if not files.get("train"):
        faults.append(f'{listing} no file to train on (its split "train")')
    twice = [path for path in times if times[path] > 1]
    faults += [f"{listing} {path} twice: its rows would be in two splits, or twice in one" for path in twice]
    if faults:
        more = [f"and {count(len(faults) - 5, 'more fault')}"] if len(faults) > 5 else []
        raise UserError("\n".join([*faults[:5], *more]))
    facts = facts_of(list(times), memory)
    return [
        Item(split, path.relative_to(above).as_posix(), path, size_bytes, sha256, time_ns)
        for split, paths in files.items()
        if paths
        for above in [_above(paths)]
        for path in sorted(paths)
        for size_bytes, time_ns, sha256 in [facts[path]]
    ]


def _above(paths: Sequence[Path]) -> Path:
    """The folder to which a split's file names are relative: the parent of --data-dir if that holds them all,
    else the parent of their common folder."""
    named = local_dirs.data_dir()
    folder = named.absolute() if named else None
    if folder is None or not all(path.is_relative_to(folder) for path in paths):
        folder = Path(os.path.commonpath([path.parent for path in paths]))
    return folder.parent


def facts_of(paths: Sequence[Path], memory: Path) -> dict[Path, Facts]:
    """The facts of files; those that are not known by size and time of change are read.

    Raises:
        UserError: one can't be read.
    """
    remembered = _remembered(memory)
    before = {path: remembered.get(str(path), (0, 0, "")) for path in paths}
    known = {path: facts for path, facts in before.items() if tuple(facts[:2]) == _size_and_time(path)}
    return known | _read_all([path for path in paths if path not in known], memory)


def _read_all(paths: Sequence[Path], memory: Path) -> dict[Path, Facts]:
    """Read files, and remember their checksums also when the reading is cut short."""
    found: dict[Path, Facts] = {}
    total = sum(_size_and_time(path)[0] for path in paths)
    with Bar("Reading raw files", total, unit="B") as bar, ThreadPoolExecutor(HASH_THREADS) as readers:
        waiting = {readers.submit(_facts_of, path): path for path in paths}
        try:
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                bar.add(found[waiting[done]][0])
        finally:  # after Ctrl-C or an unreadable file, the waiting ones are not read
            readers.shutdown(wait=False, cancel_futures=True)
            _remember(memory, found)
    return found


def _facts_of(path: Path) -> Facts:
    before = _size_and_time(path)
    try:
        return *before, atomic_io.sha256_of(path)
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None
    return found.st_size, found.st_mtime_ns


def _remembered(memory: Path) -> dict[str, Facts]:
    try:
        content = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remember(memory: Path, found: Mapping[Path, Facts]) -> None:
    """What another process has added meanwhile mostly stays."""
    old_enough = time.time_ns() - 2 * 10**9  # a younger file may change without a new time of change
    new = {str(path): facts for path, facts in found.items() if facts[1] < old_enough}
    if new:
        with contextlib.suppress(OSError):  # a full disk: the files are read again the next time
            memory.parent.mkdir(parents=True, exist_ok=True)
            atomic_io.write(memory, json.dumps({**_remembered(memory), **new}))
