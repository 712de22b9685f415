"""Doors to storages behind a network: one file put there whole, and why one does not open, in words.

Both are file systems of fsspec: Arrow's own S3, and SFTP by `sshfs` over asyncssh. (fsspec's own SFTP takes
any host key, and hung under load.) Who one is is known to the SSH agent, ~/.ssh, the environment or a profile
of AWS: nothing of it passes through here.
"""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from sweeps.storage import DISK_IS_FULL

CONNECT_S, SILENT_S = 10, 20
"""How long a host may take to answer; how long one that was there may be silent."""


class Door(Protocol):
    """What is different behind one scheme and the other."""

    @property
    def url(self) -> str:
        """As it was given."""

    @property
    def root(self) -> str:
        """Its path, as the file system has it."""

    def open(self) -> Any:
        """The file system, connected."""

    def put(self, fs: Any, file: Path, target: str) -> None:
        """Put a file there: under its name it is whole."""

    def why(self, error: Exception, fs: Any) -> tuple[str, bool]:
        """Why it failed, and whether it will fail the next time too."""

    def make(self, fs: Any) -> None:
        """Make the folder `root`."""


def door_of(url: str) -> Door:
    """The door to a URL that `storage.settled` has let pass."""
    return S3(url) if url.startswith("s3:") else Sftp(url)


@dataclass(frozen=True)
class S3:
    """A bucket, of Amazon or of another server (`AWS_ENDPOINT_URL`)."""

    url: str

    @property
    def root(self) -> str:
        """Bucket and prefix."""
        split = urlsplit(self.url)
        return f"{split.netloc}{unquote(split.path)}"

    def open(self) -> Any:
        """As Door has it."""
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        once = AwsStandardS3RetryStrategy(max_attempts=1)  # tried again by us, with longer waits
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

    def put(self, fs: Any, file: Path, target: str) -> None:
        """As Door has it: an object is not there before its last byte."""
        _copy(fs, file, target)

    def why(self, error: Exception, fs: Any) -> tuple[str, bool]:
        """As Door has it. Arrow knows of errors no more than their text."""
        text = " ".join(str(error).split())
        bucket = urlsplit(self.url).netloc
        if "NO_SUCH_BUCKET" in text or ("Bucket" in text and "not found" in text):
            return f"there is no bucket {bucket}: make it", True
        refused = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP status 403")
        if any(code in text for code in refused):
            return (
                "S3 refuses the credentials of this PC, or what they may do: look at AWS_ACCESS_KEY_ID, "
                f"AWS_SECRET_ACCESS_KEY or AWS_PROFILE, and at the policy of {bucket}",
                True,
            )
        return text, False

    def make(self, fs: Any) -> None:
        """S3 has no folders; the bucket must be there."""
        if not fs.exists(urlsplit(self.url).netloc):
            raise OSError("NO_SUCH_BUCKET")


@dataclass(frozen=True)
class Sftp:
    """A folder of a host with an SSH server: `sftp://[user@]host[:port]/path`."""

    url: str

    @property
    def root(self) -> str:
        """The path on the host."""
        return unquote(urlsplit(self.url).path)

    @property
    def _host(self) -> str:
        return str(urlsplit(self.url).hostname)

    @property
    def _to(self) -> dict[str, Any]:
        """What the URL says; the rest is ~/.ssh/config's to say."""
        split = urlsplit(self.url)
        given = {"port": split.port, "username": split.username and unquote(split.username)}
        return {name: value for name, value in given.items() if value is not None}

    def open(self) -> Any:
        """As Door has it. Host keys are checked, whatever ~/.ssh/config says."""
        from sshfs import SSHFileSystem

        # With `UserKnownHostsFile none` asyncssh would look at no key at all: no host is known, then.
        is_off = self._settings().known_hosts is None
        return SSHFileSystem(
            self._host,
            known_hosts=([], [], []) if is_off else (),  # sshfs takes any key where it is not given
            password=None,
            connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S,
            keepalive_interval=SILENT_S / 4,
            keepalive_count_max=3,
            skip_instance_cache=True,
            **self._to,
        )

    def put(self, fs: Any, file: Path, target: str) -> None:
        """As Door has it: written beside, down to the disk, renamed."""
        from asyncssh.sftp import SFTPOpUnsupported

        folder, _, name = target.rpartition("/")
        part = f"{folder}/.{name}.{platform.node()}.part"
        fs.makedirs(folder, exist_ok=True)
        try:
            _copy(fs, file, part)
            with fs.open(part, "rb") as content, suppress(SFTPOpUnsupported):
                content.fsync()
            fs.mv(part, target)
        except Exception:  # whatever it was: what it leaves takes room on a disk that may be full
            with suppress(Exception):
                fs.rm_file(part)
            raise

    def why(self, error: Exception, fs: Any) -> tuple[str, bool]:
        """As Door has it."""
        import asyncssh

        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self._about_host_key(), True
        if isinstance(error, PermissionError):
            return (
                f"{self._host} takes no key of this PC: put one into the SSH agent, or name it in "
                "~/.ssh/config (IdentityFile), and its public half into authorized_keys there (ssh-copy-id)",
                True,
            )
        if isinstance(error, asyncssh.SFTPPermissionDenied):
            return f"permission denied: {self.root} can't be written by that user", True
        if "Can't create any SFTP" in str(error):  # sshfs' words for a session that is refused
            return (
                f"{self._host} takes the key, and offers no SFTP: `Subsystem sftp` in its sshd_config",
                True,
            )
        if isinstance(error, asyncssh.SFTPFailure) and fs is not None and _is_full(fs, self.root):
            return f"{DISK_IS_FULL} on {self._host}", False
        text = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        return f"{text} ({self._host})", False

    def make(self, fs: Any) -> None:
        """As Door has it."""
        fs.makedirs(self.root, exist_ok=True)

    def _settings(self) -> Any:
        import asyncssh

        return asyncssh.SSHClientConnectionOptions(host=self._host, config=(), **self._to)

    def _about_host_key(self) -> str:
        """Whether the host is a stranger, or another than it was."""
        import asyncssh

        settings = self._settings()
        port = settings.port
        default = Path("~/.ssh/known_hosts").expanduser()
        known = settings.known_hosts or (str(default) if default.is_file() else b"")
        alias = settings.host_key_alias or self._host
        keys, *_ = asyncssh.match_known_hosts(known, alias, "", port)
        named = alias if port == 22 else f"[{alias}]:{port}"
        login = " ".join(
            [
                "ssh",
                *([] if port == 22 else ["-p", str(port)]),
                f"{settings.username}@{self._host}",
            ]
        )
        if keys:
            return (
                f"the host key of {named} is not the one that known_hosts has: another host, or one that was "
                f"set up anew. If it was: `ssh-keygen -R '{named}'`, then `{login}`, and compare the "
                "fingerprint"
            )
        return (
            f"the host key of {named} is not known: log in once from this PC, `{login}`, "
            "and compare the fingerprint that it shows"
        )


def _copy(fs: Any, file: Path, target: str) -> None:
    """Copy a file, and look whether all of it has come."""
    with file.open("rb") as source, fs.open(target, "wb") as content:
        shutil.copyfileobj(source, content, 2**22)
    there, size = fs.info(target)["size"], file.stat().st_size
    if there != size:
        raise OSError(f"{target}: {there:,} of {size:,} bytes have come")


def _is_full(fs: Any, path: str) -> bool:
    """SFTP says "Failure" of a full disk; ask for its free space (an extension of OpenSSH's)."""
    from asyncssh import Error
    from fsspec.asyn import sync

    async def free() -> int:
        async with fs.client.start_sftp_client() as client:
            told = await client.statvfs(path)
            return int(told.bavail) * int(told.frsize)

    try:
        return bool(sync(fs.loop, free) < 2**20)
    except (Error, OSError):
        return False
