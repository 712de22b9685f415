"""Sweeps of each kind on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import kinds
from tests.support.kinds import KINDS


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep of each kind."""
    place = tmp_path_factory.mktemp("kinds")
    return {kind: kinds.write(kind, place / kind) for kind in KINDS}
