"""Buckets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.storage.open import backend_of
from sweeps.storage.protocol import StorageError
from sweeps.storage.remote import Remote
from tests.support.servers import s3_server


def test_a_bucket_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StorageError, match=r"there is no bucket nobodys. Make it first"):
            Remote(backend_of("s3://nobodys/x"), "NAME", (60.0,)).make()
