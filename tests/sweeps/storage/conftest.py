"""A host whose keys this process knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import SSHServer, sshd


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SSHServer]:
    """A real sshd whose keys this process knows."""
    with sshd(tmp_path / "sshd") as server:
        monkeypatch.setenv("HOME", str(server.home))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        yield server
