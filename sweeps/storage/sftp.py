"""Checkpoints on an SFTP server."""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sweeps.storage.backend import CONNECT_S, SILENT_S, _copy
from sweeps.storage.base import DISK_IS_FULL


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
