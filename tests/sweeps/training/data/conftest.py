"""Prepared data of numbered rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweeps.training.data.numbered import data_set


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 + 1 + 40 rows in groups of 5."""
    folder = tmp_path_factory.mktemp("prepared")
    data_set(folder, 23, 1, 40)
    return folder
