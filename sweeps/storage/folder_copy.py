"""Copy a folder of one PC to another: prepared data, and checkpoints of trials with several workers.

A file is written beside its place, compared with its checksum and renamed. An interrupted copy continues
where it was. The manifest comes last: without it the folder is incomplete.
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
"""The content of a file of the original, from an offset on, in pieces of bytes."""
TRIES = 2
"""For a file that arrives with another checksum."""
BLOCK_BYTES = 2**22


class CannotCopy(PCUnfit):
    """Why this PC can't have the folder, in one line."""


@dataclass(frozen=True)
class File:
    """A file of the original."""

    name: str
    """Its path within the folder."""
    size_bytes: int
    sha256: str
    mark: tuple[int, ...]
    """As `_mark` gives it: two PCs with the same mark see the same file."""

    @classmethod
    def of(cls, folder: Path, name: str, sha256: str) -> File:
        """A file of this PC."""
        mark = _mark((folder / name).resolve(strict=True))
        return cls(name, mark[1], sha256, mark)

    @property
    def time_ns(self) -> int:
        """When its content changed."""
        return self.mark[2]


@dataclass(frozen=True)
class Original:
    """A complete folder, as its PC describes it to others."""

    folder: str
    manifest: str
    """Its text."""
    files: tuple[File, ...]
    """The manifest is the last one."""
    remedy: str = ""
    """What to do where a file is damaged: the end of a sentence."""

    @classmethod
    def of(cls, folder: Path, sha256s: Mapping[str, str], manifest: str, remedy: str = "") -> Original:
        """A folder of this PC.

        Args:
            folder: its path.
            sha256s: name of each file, without the manifest, to its checksum.
            manifest: name of the manifest.
            remedy: see above.
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
        return all(_mark(Path(self.folder, file.name)) == file.mark for file in self.files)


@dataclass(frozen=True)
class Place:
    """Where a copy goes on this PC."""

    root: Path
    """The folder of all copies, on one disk."""
    folder: Path
    lock: Path
    """Held by the one process that writes the copy."""
    checksums: Path
    """Cache of the checksums of its files."""


def find(original: Original, place: Place) -> Path | None:
    """The complete folder on this PC: the original where this PC sees it, or a copy with the right checksums.

    None where there is neither. A copy is read once; then its files are known by size and time of change.
    """
    there = Path(original.folder)
    if original.is_visible():
        return there
    return next((folder for folder in (place.folder, there) if not _faulty(folder, original, place)), None)


def missing_bytes(original: Original, place: Place) -> int:
    """Bytes that this PC lacks.

    Raises:
        CannotCopy: its disk has no room for them.
    """
    if find(original, place) is not None:
        return 0
    return _missing_bytes(_faulty(place.folder, original, place), place)


def bring(
    original: Original, place: Place, fetch: Fetch, told: Callable[[int], None] = lambda _: None
) -> Path:
    """The folder on this PC. Missing files are fetched; other processes of the PC wait meanwhile.

    Args:
        original: the folder to copy.
        place: where it goes.
        fetch: reads the original.
        told: gets the size in bytes of each piece that was written.

    Raises:
        CannotCopy: the disk is full, a checksum is wrong, or the copy would overwrite the original.
    """
    try:
        with _locked(place.lock):
            if (folder := find(original, place)) is None:
                _copy(original, place, fetch, told)
                folder = place.folder
    except OSError as error:
        if atomic_io.disk_is_full(error, place.root):
            raise CannotCopy(f"the disk of {place.root} is full") from None
        raise CannotCopy(f"{place.root}: {error.strerror or error}") from None
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock whose folder another worker may remove while this one waits: then it is made again."""
    lock = FileLock(path, fallback_to_soft=False)
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock.acquire()
            break
    try:
        yield
    finally:
        lock.release()


def copy_file(file: File, folder: Path, fetch: Fetch, told: Callable[[int], None] = lambda _: None) -> bool:
    """Copy a file into a folder of this PC; whether it arrived with its checksum.

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
    if any(_mark(folder / file.name) == file.mark for file in original.files):
        raise CannotCopy(f"{folder} is the original, and it has changed since the sweep began")
    todo = _faulty(folder, original, place)
    _missing_bytes(todo, place)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = original.files[-1]
    (folder / manifest.name).unlink(missing_ok=True)
    for file in (file for file in todo if file is not manifest):
        if not copy_file(file, folder, fetch, told):
            raise CannotCopy(
                f"{file.name} arrived {TRIES} times with a wrong checksum: the original, "
                f"{original.folder}, is damaged{original.remedy}"
            )
        known = {folder / file.name: (file.size_bytes, file.time_ns, file.sha256)}
        checksum_cache.remember(place.checksums, known)
    atomic_io.write(folder / manifest.name, original.manifest)


def _fetched(file: File, part: Path, fetch: Fetch, told: Callable[[int], None]) -> str:
    """Fetch the rest of a file; the checksum of all of it."""
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
    """The files that are missing or different."""
    paths = {file: folder / file.name for file in original.files}
    found = _checksums([path for file, path in paths.items() if _size(path) == file.size_bytes], place)
    return [file for file, path in paths.items() if found.get(path) != file.sha256]


def _checksums(paths: Sequence[Path], place: Place) -> dict[Path, str]:
    """Path to checksum; "" of a file that can't be read."""
    try:
        facts = checksum_cache.of(paths, place.checksums, "Reading copies")
        return {path: fact[2] for path, fact in facts.items()}
    except UserError:
        if len(paths) == 1:
            return {paths[0]: ""}
        return {path: each for one in paths for path, each in _checksums([one], place).items()}


def _missing_bytes(faulty: Iterable[File], place: Place) -> int:
    parts = ((file, _size(_part(place.folder / file.name))) for file in faulty)
    missing = sum(max(0, file.size_bytes - part) for file, part in parts)
    root = place.root.absolute()
    free = shutil.disk_usage(next(near for near in (root, *root.parents) if near.exists())).free
    if missing > free:
        raise CannotCopy(f"the disk of {place.root} has no room: {size(missing)} needed, {size(free)} free")
    return missing


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _size(path: Path) -> int:
    """In bytes; 0 of a missing file."""
    return _mark(path)[1]


def _mark(path: Path) -> tuple[int, ...]:
    """Inode, size in bytes, times of change of content and inode in ns; zeros for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
