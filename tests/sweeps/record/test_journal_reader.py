"""A journal that another process may be writing."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.storages import JournalStorage

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.journal import ReadOnlyJournal
from tests.support.dashboards import sweep


def test_what_would_write_on_another_way_is_refused_by_the_file(tmp_path: Path) -> None:
    sweep(tmp_path)
    storage = JournalStorage(ReadOnlyJournal(tmp_path / JOURNAL))
    with pytest.raises(PermissionError, match="only its sweep writes it"):
        storage.delete_study(0)
