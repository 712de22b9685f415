"""Checkpoints on an SFTP server."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncssh
from fsspec.asyn import sync
from sshfs import SSHFileSystem

from sweeps.storage.protocol import DISK_IS_FULL
from sweeps.storage.remote import CONNECT_S, SILENT_S, copy_to_server


@dataclass(frozen=True)
class Sftp:
    """A folder of a host with an SSH server: `sftp://[user@]host[:port]/path`."""

    url: str

    @property
    def root(self) -> str:
        return unquote(urlsplit(self.url).path)

    @property
    def _host(self) -> str:
        """As it is typed, for ~/.ssh/config: `hostname` of urllib has small letters."""
        return re.sub(r"^(.*@)?\[?|\]?(:\d*)?$", "", urlsplit(self.url).netloc)

    @property
    def _to(self) -> dict[str, Any]:
        """Settings of the URL; ~/.ssh/config gives the others."""
        split = urlsplit(self.url)
        given = {"port": split.port, "username": split.username and unquote(split.username)}
        return {name: value for name, value in given.items() if value is not None}

    def open(self) -> Any:
        # Host keys are checked whatever ~/.ssh/config says. With `UserKnownHostsFile none` asyncssh would
        # check none: then no host is known.
        settings = self._settings()
        is_off = settings.known_hosts is None
        return SSHFileSystem(
            self._host,
            known_hosts=([], [], []) if is_off else (),  # without it sshfs accepts any key
            host_key_alias=_known_as(settings),
            password=None,
            connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S,
            keepalive_interval=SILENT_S / 4,
            keepalive_count_max=3,
            skip_instance_cache=True,
            **self._to,
        )

    def upload(self, fs: Any, file: Path, target: str) -> None:
        """Write beside the target, sync to the disk, rename."""
        folder, _, name = target.rpartition("/")
        part = f"{folder}/.{name}.{platform.node()}.part"
        fs.makedirs(folder, exist_ok=True)
        try:
            copy_to_server(fs, file, part)
            with fs.open(part, "rb") as content, suppress(asyncssh.SFTPOpUnsupported):
                content.fsync()
            fs.mv(part, target)
        except Exception:  # a part that stays takes room on a disk that may be full
            with suppress(Exception):
                fs.rm_file(part)
            raise

    def diagnose(self, error: Exception, fs: Any) -> tuple[str, bool]:
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self._about_host_key(), True
        if isinstance(error, PermissionError) and error.filename is not None:  # as a key of ~/.ssh/config
            return f"{error.filename} on this PC: {error.strerror}", True
        if isinstance(error, PermissionError):
            return (
                f"{self._host} accepts no key of this PC for the user {self._settings().username}. Add one "
                "to the SSH agent, or name it in ~/.ssh/config (IdentityFile), and copy its public half "
                "there (ssh-copy-id); or give the user that it has there, as in sftp://USER@host/path",
                True,
            )
        if isinstance(error, asyncssh.SFTPPermissionDenied):
            return f"permission denied: that user can't write to {self.root}", True
        if "Can't create any SFTP" in str(error):  # sshfs, of a refused session
            remedy = "Add `Subsystem sftp` to its sshd_config"
            return f"{self._host} accepts the key but offers no SFTP. {remedy}", True
        if isinstance(error, asyncssh.SFTPFailure) and fs is not None and _is_full(fs, self.root):
            return f"{DISK_IS_FULL} on {self._host}", False
        text = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        return f"{text} ({self._host})", False

    def make(self, fs: Any) -> None:
        fs.makedirs(self.root, exist_ok=True)

    def _settings(self) -> Any:
        return asyncssh.SSHClientConnectionOptions(host=self._host, config=(), **self._to)

    def _about_host_key(self) -> str:
        settings = self._settings()
        port, alias = settings.port, _known_as(settings)
        named = alias if port == 22 else f"[{alias}]:{port}"
        login = f"ssh {'' if port == 22 else f'-p {port} '}{settings.username}@{self._host}"
        return (
            f"the host key of {named} is not in known_hosts, or another one is. Log in once from this PC, "
            f"`{login}`, and compare the fingerprint that it shows. If the host was set up again, type "
            f"`ssh-keygen -R '{named}'` before"
        )


def _known_as(settings: Any) -> str:
    """The name of a host in known_hosts, where SSH writes it in small letters."""
    return str(settings.host_key_alias or settings.host.lower())


def _is_full(fs: Any, path: str) -> bool:
    """SFTP calls a full disk only "Failure": ask for its free space (an extension of OpenSSH's)."""

    async def free() -> int:
        async with fs.client.start_sftp_client() as client:
            disk = await client.statvfs(path)
            return int(disk.bavail) * int(disk.frsize)

    try:
        return bool(sync(fs.loop, free) < 2**20)
    except (asyncssh.Error, OSError):
        return False
