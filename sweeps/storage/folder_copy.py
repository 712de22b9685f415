"""A folder of one PC on another: whether it is there whole, and how it comes there.

So travel prepared data and the checkpoints of trials with several workers. What arrives is written beside its
place, compared with its checksum and renamed. What has arrived stays, so that a copy which was interrupted
goes on where it was. The manifest comes last: until then the folder is not whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from sweeps.common import atomic_io, checksum_cache
from sweeps.common.errors import PCUnfit, UserError
from sweeps.common.formatting import size

Fetch = Callable[["File", int], Iterator[Any]]
"""The content of a file of the original from an offset on, in pieces of bytes."""
TRIES = 2
"""Of a file that arrives other than it was sent."""
BLOCK_BYTES = 2**22
"""Bytes that are read at once."""


class CannotCopy(PCUnfit):
    """Why this PC can't have the folder, in a line."""


@dataclass(frozen=True)
class File:
    """A file of the original."""

    name: str
    """Its path within the folder."""
    size_bytes: int
    sha256: str
    mark: tuple[int, ...]
    """Inode, size in bytes, times of change of content and inode in ns: two PCs that see the same four
    see one file."""

    @classmethod
    def of(cls, folder: Path, name: str, sha256: str) -> File:
        """A file that is here."""
        mark = _mark(folder / name)
        return cls(name, mark[1], sha256, mark)

    @property
    def time_ns(self) -> int:
        """When its content was changed."""
        return self.mark[2]


@dataclass(frozen=True)
class Original:
    """A folder that is whole, as the PC that has it describes it to others."""

    folder: str
    manifest: str
    """Text of the last file."""
    files: tuple[File, ...]
    """The manifest is the last one."""
    remedy: str = ""
    """What to do where it is damaged, as an end of the sentence that says so."""

    @classmethod
    def of(cls, folder: Path, sha256s: Mapping[str, str], manifest: str, remedy: str = "") -> Original:
        """A folder that is here.

        Args:
            folder: which one.
            sha256s: name of each file but the manifest to its checksum.
            manifest: name of the manifest.
            remedy: what to do where a file turns out to be damaged.
        """
        text = (folder / manifest).read_text()
        digests = {**sha256s, manifest: hashlib.sha256(text.encode()).hexdigest()}
        return cls(str(folder), text, tuple(File.of(folder, *each) for each in digests.items()), remedy)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def is_visible(self) -> bool:
        """Whether this PC sees these very files in their folder."""
        return all(_is_marked(Path(self.folder, file.name), file) for file in self.files)


@dataclass(frozen=True)
class Place:
    """Where copies go on this PC."""

    root: Path
    """What is below it is on one disk, with the checksums of its files that are known."""
    folder: Path
    lock: Path
    """Held by the one process that writes the copy."""
    checksums: Path


def find(original: Original, place: Place) -> Path | None:
    """Where the folder is whole on this PC; None: nowhere.

    That is the folder of the original where this PC sees it, or a copy, each file of which has the checksum
    that it should have. A copy is read once; then its files are known by size and time of change.
    """
    there = Path(original.folder)
    if original.is_visible():
        return there
    candidates = dict.fromkeys((place.folder, there))
    return next((folder for folder in candidates if not _faulty(folder, original, place)), None)


def missing_bytes(original: Original, place: Place) -> int:
    """Bytes that this PC has to get.

    Raises:
        CannotCopy: its disk has no room for them.
    """
    if find(original, place) is not None:
        return 0
    return _missing_bytes(_faulty(place.folder, original, place), place)


def bring(
    original: Original, place: Place, fetch: Fetch, told: Callable[[int], None] = lambda _: None
) -> Path:
    """The folder on this PC; what it lacks is fetched. Other processes of the PC that want it wait.

    Args:
        original: what is wanted.
        place: where it goes.
        fetch: reads the original.
        told: gets the size in bytes of each piece that has been written.

    Raises:
        CannotCopy: the disk is full, what arrives is not what was sent, or the place of the copy is that of
            the original.
    """
    try:
        place.lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.lock, fallback_to_soft=False):
            if (folder := find(original, place)) is None:
                _copy(original, place, fetch, told)
                folder = place.folder
    except OSError as error:
        if atomic_io.disk_is_full(error, place.root):
            raise CannotCopy(f"the disk of {place.root} is full") from None
        raise CannotCopy(f"{place.root}: {error.strerror or error}") from None
    return folder


def copy_file(file: File, folder: Path, fetch: Fetch, told: Callable[[int], None] = lambda _: None) -> bool:
    """Copy a file into a folder of this PC; whether it arrived as it was sent.

    Raises:
        OSError: it can't be written.
    """
    path = folder / file.name
    part = _part(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        if _fetched(file, part, fetch, told) == file.sha256:
            os.utime(part, ns=(file.time_ns, file.time_ns))
            part.replace(path)
            return True
        part.unlink()
    return False


def _copy(original: Original, place: Place, fetch: Fetch, told: Callable[[int], None]) -> None:
    folder = place.folder
    if any(_is_marked(folder / file.name, file) for file in original.files):
        raise CannotCopy(f"{folder} is the original, seen from here, and has changed since the sweep began")
    todo = _faulty(folder, original, place)
    _missing_bytes(todo, place)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = original.files[-1]
    (folder / manifest.name).unlink(missing_ok=True)
    for file in todo:
        if file is manifest:
            continue
        if not copy_file(file, folder, fetch, told):
            raise CannotCopy(
                f"{file.name} arrived {TRIES} times with another checksum than it should have: the original, "
                f"{original.folder}, is damaged{original.remedy}"
            )
        known = {folder / file.name: (file.size_bytes, file.time_ns, file.sha256)}
        checksum_cache.remember(place.checksums, known)
    atomic_io.write(folder / manifest.name, original.manifest)


def _fetched(file: File, part: Path, fetch: Fetch, told: Callable[[int], None]) -> str:
    """The checksum of a file that is fetched, from where it was interrupted."""
    with part.open("a+b") as content:
        if content.tell() > file.size_bytes:
            content.truncate(0)
        content.seek(0)
        digest = hashlib.sha256()
        while block := content.read(BLOCK_BYTES):
            digest.update(block)
        for piece in fetch(file, content.tell()):
            content.write(piece)
            digest.update(piece)
            told(len(piece))
        os.fsync(content.fileno())
    return digest.hexdigest()


def _faulty(folder: Path, original: Original, place: Place) -> list[File]:
    """The files that are not there, or are others."""
    there = [file for file in original.files if _size(folder / file.name) == file.size_bytes]
    holds = _checksums([folder / file.name for file in there], place)
    return [file for file in original.files if holds.get(folder / file.name) != file.sha256]


def _checksums(paths: Sequence[Path], place: Place) -> dict[Path, str]:
    """What files hold; "" of one that can't be read."""
    try:
        facts = checksum_cache.of(paths, place.checksums, "Reading copies")
        return {path: fact[2] for path, fact in facts.items()}
    except UserError:
        if len(paths) == 1:
            return {paths[0]: ""}
        return {path: each for one in paths for path, each in _checksums([one], place).items()}


def _missing_bytes(faulty: Iterable[File], place: Place) -> int:
    parts = ((file, _size(_part(place.folder / file.name)) or 0) for file in faulty)
    missing = sum(file.size_bytes - min(file.size_bytes, part) for file, part in parts)
    root = place.root.absolute()
    free = shutil.disk_usage(next(near for near in (root, *root.parents) if near.exists())).free
    if missing > free:
        raise CannotCopy(f"the disk of {place.root} has no room: {size(missing)} needed, {size(free)} free")
    return missing


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _size(path: Path) -> int | None:
    """In bytes; None of a file that is not there."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None


def _mark(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_marked(path: Path, file: File) -> bool:
    try:
        return _mark(path) == file.mark
    except OSError:
        return False
