"""The raw files of a trainable, and their checksums."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common import checksum_cache, machine_folders
from sweeps.common.errors import UserError
from sweeps.common.formatting import count


@dataclass(frozen=True)
class Item:
    """A raw file."""

    split: str
    name: str
    """Its path relative to `_above`; folders may carry meaning, such as a class."""
    path: Path
    size_bytes: int
    sha256: str

    @property
    def part(self) -> str:
        """Name of the file of its rows: a checksum of its split, name and content."""
        return hashlib.sha256(f"{self.split}/{self.name} {self.sha256}".encode()).hexdigest()


def find(asked: str, raw_items: Callable[[Any], Mapping[str, Sequence[Path]]], params: Any) -> list[Item]:
    """The raw files that `raw_items(params)` lists, without checksums yet.

    Args:
        asked: the trainable, as the user named it.
        raw_items: the trainable's function.
        params: its argument.

    Raises:
        UserError: a file is missing, or the result is not a list of files.
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
    return [
        Item(split, path.relative_to(above).as_posix(), path, checksum_cache.stat(path).st_size, "")
        for split, paths in files.items()
        if paths
        for above in [_above(paths)]
        for path in sorted(paths)
    ]


def _above(paths: Sequence[Path]) -> Path:
    """The folder to which a split's file names are relative: the parent of --data-dir if that holds them all,
    else the parent of their common folder."""
    named = machine_folders.data_dir()
    folder = named.absolute() if named else None
    if folder is None or not all(path.is_relative_to(folder) for path in paths):
        folder = Path(os.path.commonpath([path.parent for path in paths]))
    return folder.parent


def with_checksums(items: Sequence[Item], memory: Path) -> list[Item]:
    """The items with their checksums; shows progress when it takes long.

    Args:
        items: raw files.
        memory: file of known checksums.
    """
    facts = checksum_cache.of((item.path for item in items), memory, "Reading raw files")
    found = []
    for item in items:
        size_bytes, _, sha256 = facts[item.path]
        found.append(dataclasses.replace(item, size_bytes=size_bytes, sha256=sha256))
    return found
