"""Storages behind a network, for real: an SSH server and an S3 server on this PC, with keys of their own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BUCKET = "sweeps"
PATH = "/usr/sbin:/usr/bin"
"""Where Debian puts sshd; not all users have the first one on theirs."""


@dataclass
class SSHServer:
    """A real sshd on a free port; a client's $HOME in which its key and the host's are known."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def home(self) -> Path:
        """What a client must have as $HOME."""
        return self.folder / "home"

    @property
    def root(self) -> Path:
        """A folder that it may write to."""
        return self.folder / "storage"

    @property
    def url(self) -> str:
        """Of that folder."""
        return f"sftp://{getpass.getuser()}@127.0.0.1:{self.port}{self.root}"

    @property
    def known_hosts(self) -> Path:
        """The client's."""
        return self.home / ".ssh" / "known_hosts"

    def set_up(self) -> None:
        """Keys, settings, folders."""
        self.root.mkdir(parents=True)
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        for key in (self.folder / "host_key", self.home / ".ssh" / "id_ed25519"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        shutil.copy(self.home / ".ssh" / "id_ed25519.pub", self.folder / "authorized_keys")
        self.know(self.folder / "host_key.pub")
        (self.folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
            f"PidFile {self.folder}/pid\nSubsystem sftp internal-sftp\n"
        )

    def know(self, public_key: Path) -> None:
        """Let the client know this host key, and no other."""
        kind, key, *_ = public_key.read_text().split()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def start(self) -> None:
        """Listen."""
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it
        program = str(shutil.which("sshd", path=PATH))  # it wants to be called by its whole path
        command = [program, "-D", "-e", "-f", f"{self.folder}/config"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_for(self.port)

    def stop(self) -> None:
        """Go away, with all connections: as a PC does that loses its power."""
        if self.process is None:
            return
        for child in self._children(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process = None

    def _children(self, pid: int) -> list[int]:
        """All that it has started, the youngest first."""
        direct = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
        return [one for child in map(int, direct) for one in (*self._children(child), child)]


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[SSHServer]:
    """A running one."""
    if os.geteuid() != 0 or shutil.which("sshd", path=PATH) is None:
        pytest.skip("needs root and sshd (apt-get install openssh-server)")
    server = SSHServer(folder)
    server.set_up()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@dataclass(frozen=True)
class S3Server:
    """A real S3 server with a bucket, and what a client needs in its environment."""

    url: str
    environment: dict[str, str]


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A running one: moto's, over HTTP."""
    pytest.importorskip("moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        wait_for(port)
        _make_bucket(port)
        yield S3Server(f"s3://{BUCKET}/checkpoints", environment)
    finally:
        process.kill()
        process.wait()


def _make_bucket(port: int) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", f"/{BUCKET}")
    assert connection.getresponse().status == 200
    connection.close()


def wait_for(port: int) -> None:
    """Until somebody listens."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"nobody listens on port {port}")
