"""A data set that was prepared on one PC, on another: whether it lies there whole, and how it comes there.

What arrives is written beside its place, compared with its checksum and renamed. What has arrived stays, so
that a copy which was cut goes on where it was. The manifest comes last: until then there is no data set.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io, checksum_cache
from sweeps.common.atomic_io import disk_is_full
from sweeps.common.errors import PCUnfit, UserError
from sweeps.common.formatting import size
from sweeps.training.data import dataset, shards
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.shards import Manifest

Fetch = Callable[[str, int], Iterator[Any]]
"""The content of a file of the original from an offset on, in pieces of bytes."""
TRIES = 2
"""Of a file that arrives other than it was sent."""
BLOCK_BYTES = 2**22
"""That are read at once."""


class CannotCopy(PCUnfit):
    """Why this PC can't have the data, in a line."""


@dataclass(frozen=True)
class File:
    """A file of the original."""

    name: str
    size_bytes: int
    sha256: str
    mark: tuple[int, ...]
    """Which file it is, whatever PC looks at it: see `_mark`."""

    @property
    def time_ns(self) -> int:
        """When its content was changed."""
        return self.mark[2]


@dataclass(frozen=True)
class Original:
    """A data set that is whole, as the PC that has it describes it to others."""

    folder: str
    lock: str
    """Name of the file that is held by the one process that writes it."""
    manifest: str
    """Text of it."""
    files: tuple[File, ...]
    """Shards, and the manifest at last."""

    @classmethod
    def of(cls, data_set: DataSet) -> Original:
        """Of a data set that lies here.

        Raises:
            NotPrepared: it does not.
        """
        folder = data_set.folder
        manifest = Manifest.read(folder)
        text = (folder / shards.MANIFEST).read_text()
        files = [(s.file, s.size_bytes, s.sha256) for split in manifest.splits.values() for s in split]
        files += [(shards.MANIFEST, len(text.encode()), hashlib.sha256(text.encode()).hexdigest())]
        marked = tuple(File(*file, _mark(folder / file[0])) for file in files)
        return cls(str(folder), data_set.lock_file.name, text, marked)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def target(self) -> Path:
        """Where a copy lies on this PC."""
        return dataset.root() / Path(self.folder).name


def find(original: Original) -> Path | None:
    """Where the data set lies whole on this PC; None: nowhere.

    That is the folder of the original where this PC sees it, or a copy, each file of which has the checksum
    that it should have. A copy is read once; then its files are known by size and time of change.
    """
    there = Path(original.folder)
    if all(_is_marked(there / file.name, file) for file in original.files):
        return there
    return next((place for place in _places(original) if not _faulty(place, original)), None)


def is_shared(original: Original) -> bool:
    """Whether this PC sees the data set in its folder, as far as its manifest and the sizes of files tell."""
    folder = Path(original.folder)
    try:
        return (folder / shards.MANIFEST).read_text() == original.manifest and bool(Manifest.read(folder))
    except (OSError, ValueError, shards.NotPrepared):
        return False


def missing_bytes(original: Original) -> int:
    """That this PC has to get.

    Raises:
        CannotCopy: its disk has no room for them.
    """
    if find(original) is not None:
        return 0
    return _missing_bytes(_faulty(original.target, original), original.target)


def bring(original: Original, fetch: Fetch, told: Callable[[int], None] = lambda _: None) -> Path:
    """The folder of the data set on this PC; what it lacks is fetched.

    Whoever comes first does it; other processes of the PC wait for it.

    Args:
        original: what is wanted.
        fetch: reads the original.
        told: of each so many bytes that have been written.

    Raises:
        CannotCopy: the disk is full, what arrives is not what was sent, or the place of the copy is that of
            the original.
    """
    try:
        with _alone(original):
            if (folder := find(original)) is not None:
                return folder
            _copy(original, fetch, told)
    except OSError as error:
        if disk_is_full(error, dataset.root()):
            raise CannotCopy(f"the disk of {dataset.root()} is full") from None
        raise CannotCopy(f"{dataset.root()}: {error.strerror or error}") from None
    return original.target


def _copy(original: Original, fetch: Fetch, told: Callable[[int], None]) -> None:
    folder = original.target
    if any(_is_marked(folder / file.name, file) for file in original.files):
        raise CannotCopy(f"{folder} is the original, seen from here, and has changed since the sweep began")
    todo = _faulty(folder, original)
    _missing_bytes(todo, folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / shards.MANIFEST).unlink(missing_ok=True)
    for file in todo:
        if file.name != shards.MANIFEST:
            _copy_file(file, original, fetch, told)
    atomic_io.write(folder / shards.MANIFEST, original.manifest)


def _copy_file(file: File, original: Original, fetch: Fetch, told: Callable[[int], None]) -> None:
    path = original.target / file.name
    part = _part(path)
    for _ in range(TRIES):
        if _fetched(file, part, fetch, told) == file.sha256:
            os.utime(part, ns=(file.time_ns, file.time_ns))
            part.replace(path)
            known = {path: (file.size_bytes, file.time_ns, file.sha256)}
            checksum_cache.remember(dataset.root() / dataset.CHECKSUMS_FILE, known)
            return
        part.unlink()
    raise CannotCopy(
        f"{file.name} arrived {TRIES} times with another checksum than it should have: the original, "
        f"{original.folder}, is damaged (`sweeps prepare NAME --check` there says how to mend it)"
    )


def _fetched(file: File, part: Path, fetch: Fetch, told: Callable[[int], None]) -> str:
    """The checksum of a file that is fetched, from where it was cut."""
    with part.open("a+b") as content:
        if content.tell() > file.size_bytes:
            content.truncate(0)
        content.seek(0)
        digest = hashlib.sha256()
        while block := content.read(BLOCK_BYTES):
            digest.update(block)
        for piece in fetch(file.name, content.tell()):
            content.write(piece)
            digest.update(piece)
            told(len(piece))
        os.fsync(content.fileno())
    return digest.hexdigest()


def _faulty(folder: Path, original: Original) -> list[File]:
    """The files that are not there, or are others."""
    faulty, there = [], []
    for file in original.files:
        with contextlib.suppress(OSError):
            if (folder / file.name).stat().st_size == file.size_bytes:
                there.append(file)
                continue
        faulty.append(file)
    holds = _checksums([folder / file.name for file in there])
    return faulty + [file for file in there if holds[folder / file.name] != file.sha256]


def _checksums(paths: Sequence[Path]) -> dict[Path, str]:
    """What files hold; "" of one that can't be read."""
    try:
        facts = checksum_cache.of(paths, dataset.root() / dataset.CHECKSUMS_FILE, "Reading prepared data")
        return {path: fact[2] for path, fact in facts.items()}
    except UserError:
        if len(paths) == 1:
            return {paths[0]: ""}
        return {path: each for one in paths for path, each in _checksums([one]).items()}


def _missing_bytes(faulty: Sequence[File], folder: Path) -> int:
    missing = 0
    for file in faulty:
        part = _part(folder / file.name)
        missing += file.size_bytes - min(file.size_bytes, part.stat().st_size if part.exists() else 0)
    if missing > (free := _free()):
        raise CannotCopy(
            f"the disk of {dataset.root()} has no room: {size(missing)} needed, {size(free)} free"
        )
    return missing


def _free() -> int:
    """Bytes on the disk of prepared data."""
    root = dataset.root().absolute()
    return shutil.disk_usage(next(near for near in (root, *root.parents) if near.exists())).free


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _places(original: Original) -> tuple[Path, ...]:
    """Where it may lie on this PC."""
    return tuple(dict.fromkeys((original.target, Path(original.folder))))


def _mark(path: Path) -> tuple[int, ...]:
    """Inode, size, times of change of content and inode: two PCs that see all four the same see one file."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_marked(path: Path, file: File) -> bool:
    try:
        return _mark(path) == file.mark
    except OSError:
        return False


@contextlib.contextmanager
def _alone(original: Original) -> Iterator[None]:
    """This process alone writes this data on this PC; another one that does is waited for."""
    dataset.root().mkdir(parents=True, exist_ok=True)
    with (dataset.root() / original.lock).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
