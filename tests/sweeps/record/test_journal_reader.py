"""A journal that another process may be writing, or make anew."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.dashboards import LR, served, shown, sweep


def test_a_record_that_is_cut_or_made_anew_is_read_anew(tmp_path: Path) -> None:
    sweep(tmp_path)
    with served(tmp_path) as url:
        assert len(shown(url)["trials"]) == 5
        (tmp_path / JOURNAL).unlink()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            shown(url)
        other = Record.create(tmp_path, "other", "min", {"sweep": "other"})
        propose(other, {"lr": 0.5}, LR)
        assert (shown(url)["name"], len(shown(url)["trials"])) == ("other", 1)


def test_a_record_that_was_cut_and_has_grown_since_is_read_anew(tmp_path: Path) -> None:
    sweep(tmp_path)
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    begun = whole.index(b"the toy broke")
    with served(tmp_path) as url:
        assert len(shown(url)["trials"]) == 5
        os.truncate(journal, whole.rindex(b"\n", 0, begun) + 1)  # an older copy, in the same file
        record = Record.reopen(tmp_path)
        for _ in range(9):
            propose(record, {"lr": 0.5}, LR)
        assert journal.stat().st_size > len(whole)
        assert len(shown(url)["trials"]) == 3 + 9


def test_what_would_write_on_another_way_is_refused_by_the_file(tmp_path: Path) -> None:
    from optuna.storages import JournalStorage

    from sweeps.record.journal import ReadOnlyJournal

    sweep(tmp_path)
    storage = JournalStorage(ReadOnlyJournal(tmp_path / JOURNAL))
    with pytest.raises(PermissionError, match="only its sweep writes it"):
        storage.delete_study(0)
