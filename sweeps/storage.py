"""Where the checkpoints of a sweep go: its own folder, another one, `s3://bucket/prefix`, `sftp://host/path`.

A folder is written and read in place (`sweeps/training/checkpoint_store.py`), by all PCs that see it. What is
behind a network holds the same checkpoints as one file each (`remote.py`), so that a trial needs nothing of
the PC on which it was before.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import place
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.config.sweep_folder import CONFIG_FILE
from sweeps.training import checkpoint_store

SCHEMES = ("s3", "sftp")
DISK_IS_FULL = "the disk is full"
Fill = Callable[[Path], None]
"""Writes the files of a checkpoint into the folder that it is given."""
Params = Mapping[str, Any]


class StorageError(OSError):
    """The storage is at fault, not the trial: its reason, for the record and the screen."""


class Storage(Protocol):
    """The checkpoints of one sweep. All of it raises StorageError when the storage does not answer."""

    @property
    def where(self) -> str:
        """The place, in words."""

    def write(self, number: int, epoch: int, fill: Fill, of: Params, *, is_last: bool = False) -> None:
        """Write a checkpoint of a trial, whole or not at all; drop its older ones.

        Args:
            number: of the trial.
            epoch: the last epoch that was trained, 1-based.
            fill: writes its files; what it raises is the trial's own error.
            of: params of the trial; one with others never goes on from it.
            is_last: no later one makes up for it.
        """

    def newest(self, number: int, of: Params | None = None) -> tuple[Path | None, list[str]]:
        """The newest whole checkpoint of a trial as a folder of this PC (until the next call), and what is
        wrong with those that are newer."""

    def look(self, number: int, of: Params, at_most: float = math.inf) -> tuple[int | None, list[str]]:
        """As `newest`, the epoch alone. Behind a network nothing is read, so nothing found broken."""

    def epochs(self, number: int) -> list[int]:
        """Epochs of the checkpoints of a trial, newest first."""

    def numbers(self) -> list[int]:
        """Trials that have checkpoints."""

    def remove(self, number: int, epoch: int | None = None) -> None:
        """Remove a checkpoint, or all of a trial."""

    def tidy(self) -> None:
        """Remove what writers and removers that were killed have left."""

    def make(self) -> None:
        """Make the place."""

    def write_note(self, name: str, text: str) -> None:
        """Write a small file, for a proof."""

    def read_note(self, name: str) -> str:
        """What is in it."""

    def remove_note(self, name: str) -> None:
        """Remove it."""


@dataclass(frozen=True)
class Folder:
    """A folder that all PCs see, and the sweep's own one on a single PC."""

    root: Path

    @property
    def where(self) -> str:
        """The place, in words."""
        return place(self.root)

    def write(self, number: int, epoch: int, fill: Fill, of: Params, *, is_last: bool = False) -> None:
        """As Storage has it."""
        folder = checkpoint_store.folder_of(self.root, number)
        try:
            checkpoint_store.write(folder, epoch, fill, of)
        except Exception as error:  # a hook of the user's may raise anything: that is not the storage's fault
            if atomic_io.disk_is_full(error, folder):
                raise StorageError(DISK_IS_FULL) from error
            self._prove()
            raise

    def newest(self, number: int, of: Params | None = None) -> tuple[Path | None, list[str]]:
        """As Storage has it."""
        with self._its_own_faults():
            self.root.stat()  # no checkpoint is found where the folder is not there, either
        return checkpoint_store.newest(checkpoint_store.folder_of(self.root, number), of)

    def look(self, number: int, of: Params, at_most: float = math.inf) -> tuple[int | None, list[str]]:
        """As Storage has it."""
        found, faults = checkpoint_store.newest(checkpoint_store.folder_of(self.root, number), of, at_most)
        return (checkpoint_store.epoch_of(found) if found else None), faults

    def epochs(self, number: int) -> list[int]:
        """As Storage has it."""
        there = checkpoint_store.all_of(checkpoint_store.folder_of(self.root, number))
        return [checkpoint_store.epoch_of(path) for path in there]

    def numbers(self) -> list[int]:
        """As Storage has it."""
        return numbers_in(path.name for path in (self.root / checkpoint_store.FOLDER).glob("trial_*"))

    def remove(self, number: int, epoch: int | None = None) -> None:
        """As Storage has it."""
        folder = checkpoint_store.folder_of(self.root, number)
        checkpoint_store.remove(folder if epoch is None else folder / f"epoch_{epoch:04d}")

    def tidy(self) -> None:
        """As Storage has it."""
        checkpoint_store.tidy(self.root)

    def make(self) -> None:
        """As Storage has it."""
        self.root.mkdir(parents=True, exist_ok=True)

    def write_note(self, name: str, text: str) -> None:
        """As Storage has it."""
        atomic_io.write(self.root / name, text)

    def read_note(self, name: str) -> str:
        """As Storage has it."""
        return (self.root / name).read_text()

    def remove_note(self, name: str) -> None:
        """As Storage has it."""
        (self.root / name).unlink(missing_ok=True)

    def _prove(self) -> None:
        """Raise StorageError where nothing can be written now."""
        name = new_name()
        with self._its_own_faults():
            self.write_note(name, "")
            self.remove_note(name)

    @contextmanager
    def _its_own_faults(self) -> Iterator[None]:
        """It may be a share that is not there on this PC, or no more."""
        try:
            yield
        except FileNotFoundError as error:
            raise StorageError(f"{self.where} is not there: all PCs must see that folder") from error
        except OSError as error:
            raise StorageError(f"{self.where}: {error.strerror or error}") from error


def numbers_in(names: Any) -> list[int]:
    """Numbers of the trials whose folders have these names."""
    found = (re.fullmatch(r"trial_(\d+)", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def of(setting: str | None, sweep: Path) -> Storage:
    """The storage of a sweep.

    Args:
        setting: --storage.
        sweep: its folder; its name is that of its place in a storage that several sweeps share.
    """
    if setting is None:
        return Folder(sweep)
    if not _scheme(setting):
        return Folder(Path(setting) / sweep.name)
    from sweeps.doors import door_of  # here, not above: what it needs takes a second to import
    from sweeps.remote import Remote

    return Remote(door_of(setting), sweep.name)


def of_sweep(sweep: Path) -> Storage:
    """The storage of a sweep that is there, by its settings; the folder itself where they can't be read."""
    setting = None
    with suppress(OSError, AttributeError):
        setting = load_yaml((sweep / CONFIG_FILE).read_text()).get("storage")
    return of(setting, sweep)


def settled(setting: str | None) -> str | None:
    """--storage as it is kept: checked as far as it can be from its text, a folder with its whole path.

    Raises:
        UserError: it is none, and what would be.
    """
    if setting is None:
        return None
    if scheme := _scheme(setting):
        return _settled_url(setting, scheme)
    _refuse_near_url(setting)
    folder = Path(setting).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--storage {setting}: is a file; give a folder, or a URL: {_forms()}")
    if fault := atomic_io.place_fault(folder / "sweep"):
        raise UserError(f"--storage {setting}: {fault}")
    return str(folder)


def _settled_url(setting: str, scheme: str) -> str:
    try:
        url = urlsplit(setting)
        _ = url.port
    except ValueError as error:
        raise UserError(f"--storage: {_without_password(setting)} is no URL: {error}") from None
    _refuse_secrets(url)
    what = f"--storage {setting}:"
    if scheme not in SCHEMES:
        raise UserError(
            f"{what} {scheme}:// is not known.{nearest(scheme, SCHEMES)} Give a folder, or one of {_forms()}"
        )
    if not url.hostname:
        missing = "a bucket" if scheme == "s3" else "a host"
        raise UserError(f"{what} {missing} is missing; as {_forms()}")
    if scheme == "sftp" and url.path.strip("/") in ("", "~"):
        raise UserError(f"{what} the path is missing; as {_forms()}")
    if url.path.startswith("/~"):
        raise UserError(f"{what} give the whole path: ~ is of a shell, and there is none")
    return setting.rstrip("/")


def _refuse_secrets(url: SplitResult) -> None:
    """What is in a setting ends up in sweep.yaml, in the record and on the screen."""
    kept = "a setting is kept in sweep.yaml and shown"
    if url.scheme == "s3" and "@" in url.netloc:
        raise UserError(
            f"--storage s3://...@{url.hostname}{url.path}: no keys in it, {kept}. S3's are taken from the "
            "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a profile (AWS_PROFILE)"
        )
    if url.password is not None:
        shown = f"{url.scheme}://{url.username}:...@{url.hostname}{url.path}"
        raise UserError(
            f"--storage {shown}: no password in it, {kept}. "
            "Log in by a key: of your SSH agent, or as ~/.ssh/config names it (IdentityFile)"
        )
    if url.query or url.fragment:
        raise UserError(f"--storage {url.scheme}://{url.hostname}{url.path}: nothing may follow the path")


def _refuse_near_url(setting: str) -> None:
    """What looks like a URL and would become a folder of that name."""
    if setting.startswith("."):
        return
    if match := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/*", setting):
        there = f"a host is {match[1]}? Then sftp://{match[1]}/path; " if match[1] not in SCHEMES else ""
        raise UserError(
            f"--storage {setting}: {there}a URL begins with scheme://, as {_forms()}; "
            f"a folder of that name is ./{setting}"
        )
    if re.match(r"[^/]+@[^/:]+:", setting):
        user_and_host, _, path = setting.partition(":")
        raise UserError(f"--storage {setting}: did you mean 'sftp://{user_and_host}/{path.lstrip('/')}'?")


def _scheme(setting: str) -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", setting)
    return match[1] if match else ""


def _without_password(setting: str) -> str:
    return re.sub(r"://[^/]*@", "://...@", setting)


def _forms() -> str:
    return "s3://bucket/prefix, sftp://[user@]host[:port]/path"


def new_name() -> str:
    """Of a small file that no one else writes."""
    return f".proof.{uuid.uuid4().hex}"
