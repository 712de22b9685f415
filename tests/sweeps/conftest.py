"""Sweeps of each kind on the disk, and plug-ins of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import kinds
from tests.support.kinds import KINDS
from tests.sweeps.common.plug_in_files import Write


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep of each kind."""
    place = tmp_path_factory.mktemp("kinds")
    return {kind: kinds.write(kind, place / kind) for kind in KINDS}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a user's module into a package of their own; its dotted path."""
    package = f"mine_{tmp_path.name}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str, name: str = "model") -> str:
        (tmp_path / package / f"{name}.py").write_text(text)
        return f"{package}.{name}"

    return write
