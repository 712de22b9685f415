"""The page of some sweeps, with caches and a token of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.page import page_context
from sweeps.page.sweep import shown_sweep
from tests.support.dashboards import Served, served, sweep


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a user that only the test knows."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def records_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a PC that is busy a page may come before its records are read, and say so: these tests wait."""
    for module in (page_context, shown_sweep):
        monkeypatch.setattr(module, "WAITS_S", 60.0)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with one sweep, `s`."""
    (tmp_path / "results" / "s").mkdir(parents=True)
    sweep(tmp_path / "results" / "s")
    return tmp_path / "results"


@pytest.fixture
def page(results: Path) -> Iterator[Served]:
    """The page of it."""
    with served(results) as page:
        yield page
