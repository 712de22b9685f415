"""Storages on another host."""

from __future__ import annotations

from sweeps.storage.open import backend_of
from sweeps.storage.remote import Remote
from tests.support.servers import SSHServer


def sftp(server: SSHServer, *waits_s: float) -> Remote:
    return Remote(backend_of(server.url), "NAME", waits_s)
