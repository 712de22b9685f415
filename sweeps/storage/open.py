"""--storage: a folder, `s3://bucket/prefix` or `sftp://host/path`; by default the sweep's own folder.

A folder is read and written in place by all PCs that see it. On a server each checkpoint is one
file (`remote.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import yaml

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.common.imports import missing
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.storage.protocol import DISK_IS_FULL, Fill, Params, Storage, StorageError, new_name, numbers_in
from sweeps.storage.remote import CONNECT_S, SILENT_S, Backend, Remote, copy_to_server
from sweeps.training.checkpoints import checkpoint_store

SCHEMES = ("s3", "sftp")
FORMS = "s3://bucket/prefix or sftp://[user@]host[:port]/path"


@dataclass(frozen=True)
class Folder:
    """A Storage in a folder: one that all PCs see, or on a single PC the sweep's own."""

    root: Path

    @property
    def where(self) -> str:
        return shown_path(self.root)

    def write(self, number: int, epoch: int, fill: Fill, params: Params, *, is_last: bool = False) -> int:
        folder = checkpoint_store.folder_of(self.root, number)
        try:
            return checkpoint_store.bytes_of(checkpoint_store.write(folder, epoch, fill, params))
        except Exception as error:  # a hook of the user's may raise anything: that is not the storage's fault
            if atomic_io.disk_is_full(error, folder):
                raise StorageError(DISK_IS_FULL) from error
            name = new_name()
            with self._as_storage_errors():  # is the folder itself writable now?
                self.write_note(name)
                self.remove_note(name)
            raise

    def newest(self, number: int, params: Params | None = None) -> tuple[Path | None, list[str]]:
        with self._as_storage_errors():
            return checkpoint_store.newest(checkpoint_store.folder_of(self.root, number), params)

    def forget_downloads(self) -> None:
        """Do nothing: a checkpoint is read where it lies."""

    def epochs(self, number: int) -> list[int]:
        with self._as_storage_errors():
            there = checkpoint_store.all_of(checkpoint_store.folder_of(self.root, number))
        return list(dict.fromkeys(map(checkpoint_store.epoch_of, there)))  # a killed process may leave two

    def numbers(self) -> list[int]:
        with self._as_storage_errors():
            return numbers_in(path.name for path in (self.root / checkpoint_store.FOLDER).glob("trial_*"))

    def remove(self, number: int, epoch: int | None = None) -> None:
        folder = checkpoint_store.folder_of(self.root, number)
        with self._as_storage_errors():
            if epoch is None:
                checkpoint_store.remove(folder)
                return
            for path in checkpoint_store.all_of(folder):
                if checkpoint_store.epoch_of(path) == epoch:
                    checkpoint_store.remove(path)

    def tidy(self) -> None:
        checkpoint_store.tidy(self.root)

    def make(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)

    def write_note(self, name: str) -> None:
        atomic_io.write(self.root / name, name)

    def read_note(self, name: str) -> str:
        return (self.root / name).read_text()

    def remove_note(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def _as_storage_errors(self) -> Iterator[None]:
        try:
            self.root.stat()  # where it is missing, no trial is without checkpoints
            yield
            self.root.stat()  # nor is one damaged that was lost with it meanwhile
        except FileNotFoundError as error:
            raise StorageError(f"{self.where} is missing: all PCs must see that folder") from error
        except OSError as error:
            raise StorageError(f"{self.where}: {error.strerror or error}") from error


def open_storage(setting: str | None, sweep: Path) -> Storage:
    """The storage of a sweep.

    Args:
        setting: a checked --storage.
        sweep: folder of the sweep; sweeps that share a storage have subfolders of these names.
    """
    if setting is None:
        return Folder(sweep)
    return Remote(backend_of(setting), sweep.name) if "://" in setting else Folder(Path(setting, sweep.name))


def open_storage_of(sweep: Path) -> Storage:
    """The storage that an existing sweep has in its settings; its own folder where they can't be read."""
    setting = None
    with suppress(OSError, ValueError, AttributeError, yaml.YAMLError):
        setting = load_yaml((sweep / SWEEP_FILE).read_text()).get("storage")
    return open_storage(setting, sweep)


@dataclass(frozen=True)
class S3:
    """Checkpoints in a bucket, of Amazon or of another server (`AWS_ENDPOINT_URL`)."""

    url: str

    @property
    def root(self) -> str:
        split = urlsplit(self.url)
        return f"{split.netloc}{unquote(split.path)}"

    def open(self) -> Any:
        # Here, since few sweeps need them.
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        once = AwsStandardS3RetryStrategy(max_attempts=1)  # `Remote` tries again, with longer waits
        # Arrow reads these two from the environment in `S3FileSystem.from_uri` alone.
        endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "")
        arrow = S3FileSystem(
            scheme=endpoint.scheme or None,
            endpoint_override=endpoint.netloc or None,
            connect_timeout=CONNECT_S,
            request_timeout=SILENT_S,
            retry_strategy=once,
        )
        return ArrowFSWrapper(arrow, skip_instance_cache=True)

    def upload(self, fs: Any, file: Path, target: str) -> None:
        copy_to_server(fs, file, target)  # an object is visible only when it is complete

    def diagnose(self, error: Exception, fs: Any) -> tuple[str, bool]:
        text = " ".join(str(error).split())  # all that Arrow passes on
        bucket = urlsplit(self.url).netloc
        if "NO_SUCH_BUCKET" in text or ("Bucket" in text and "not found" in text):
            return f"there is no bucket {bucket}. Make it first", True
        refused = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP status 403")
        if any(code in text for code in refused):
            return (
                "S3 rejects the credentials of this PC or their permissions. Check AWS_ACCESS_KEY_ID, "
                f"AWS_SECRET_ACCESS_KEY or AWS_PROFILE, and the policy of {bucket}",
                True,
            )
        return text, False

    def make(self, fs: Any) -> None:
        if not fs.exists(urlsplit(self.url).netloc):
            raise OSError("NO_SUCH_BUCKET")  # S3 has no folders to make


def backend_of(url: str) -> Backend:
    """The server of a checked URL."""
    if url.startswith("s3:"):
        return S3(url)
    from sweeps.storage.sftp import Sftp  # of an extra

    return Sftp(url)


def check_setting(setting: str | None) -> str | None:
    """--storage as sweep.yaml keeps it: a URL, or the absolute path of a folder. No server is asked.

    Raises:
        UserError: it is neither.
    """
    if setting is None:
        return None
    if "://" in setting:
        _check_url(setting)
        return setting.rstrip("/")
    if near_url := re.match(r"((?:[^./@:][^/@:]*@)?[\w+-][\w.+-]*):/*(.*)", setting):
        host, path = near_url.groups()
        meant = f"{host}://{path}" if host in SCHEMES else f"sftp://{host}/{path}"
        raise UserError(
            f"--storage {setting}: a URL begins with s3:// or sftp://. Did you mean '{meant}'? "
            f"For a folder of that name give ./{setting}"
        )
    folder = Path(setting).expanduser().resolve()
    if os.access(folder, os.F_OK) and not folder.is_dir():  # the first is no error in a private folder
        raise UserError(f"--storage {setting}: this is a file. Give a folder, or a URL: {FORMS}")
    if fault := atomic_io.place_fault(folder / "sweep"):
        raise UserError(f"--storage {setting}: {fault}")
    return str(folder)


def _check_url(setting: str) -> None:
    try:
        url = urlsplit(setting)
        _ = url.port
    except ValueError as error:
        shown = re.sub(r"://[^/]*@", "://...@", setting)
        raise UserError(f"--storage {shown}: not a URL: {error}. Give {FORMS}") from None
    _refuse_secrets(url)
    scheme = setting.partition("://")[0]
    fault = ""
    if scheme not in SCHEMES:
        near = nearest(scheme, SCHEMES)
        fault = f"{scheme}:// is not supported.{near} Give a folder, or a URL: {FORMS}"
    elif not url.hostname:
        fault = f"{'the bucket' if scheme == 's3' else 'the host'} is missing. Give {FORMS}"
    elif scheme == "sftp" and url.path.strip("/") in ("", "~"):
        fault = f"the path is missing. Give {FORMS}"
    elif url.path.startswith("/~"):
        fault = "give the whole path. ~ works in a shell only"
    if fault := fault or (missing("sshfs", "storage") if scheme == "sftp" else ""):
        raise UserError(f"--storage {setting}: {fault}")


def _refuse_secrets(url: SplitResult) -> None:
    shown = f"{url.scheme}://{url.hostname}{url.path}"
    if url.password is not None or (url.scheme == "s3" and "@" in url.netloc):
        raise UserError(
            f"--storage {shown}: give no keys and no password in a URL. A setting is kept in sweep.yaml and "
            "shown. For S3, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE); for "
            "SFTP, take a key of your SSH agent, or one that ~/.ssh/config names (IdentityFile)"
        )
    if url.query or url.fragment:
        raise UserError(f"--storage {shown}: nothing may follow the path, no ? and no #")
