"""The storage of a sweep, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.storage_and_data import check_storage_here
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.contexts import context_of


def test_a_share_that_is_not_mounted_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """All trials would begin anew, and the weights of the winner would count as lost."""
    share, sweep = tmp_path / "share", tmp_path / "s"
    for folder in (share, sweep):
        folder.mkdir()
    record = Record.create(sweep, "s", "max", {"metric": "m"})
    plan = context_of(sweep, record, SweepConfig.from_settings(name="s", storage=str(share))).plan
    propose(record, {"slope": 0.5})
    check_storage_here(plan, record)
    assert (share / "s").is_dir(), "it is made for the first checkpoint"
    record.note_trial(0, checkpoint_bytes=7)
    check_storage_here(plan, record)
    (share / "s").rmdir()
    with pytest.raises(UserError, match="share/s, with the checkpoints of this sweep, is not there"):
        check_storage_here(plan, record)
    assert not (share / "s").exists()
    (share / "s").mkdir()
    check_storage_here(plan, record)
