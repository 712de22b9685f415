"""The folder of a user who refines sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.common import project


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, where spaces and trainables of this test's lie."""
    monkeypatch.chdir(tmp_path)
    project.use()  # a test before may have used the folder of a file that it named
    return tmp_path / "results"
