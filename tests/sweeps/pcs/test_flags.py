"""The flags of the commands for PCs, as the commands get them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.pcs import __main__ as flags


def test_a_drain_is_of_this_pc_and_leaves_time_for_an_epoch() -> None:
    assert flags.drain([]) == {"address": "auto", "pc": None, "timeout_s": flags.DRAIN_S}
    asked = flags.drain(["pc2", "--timeout-s", "0.5", "--address", "head:6379"])
    assert asked == {"address": "head:6379", "pc": "pc2", "timeout_s": 0.5}


@pytest.mark.parametrize("seconds", ["0", "-1", "86401"])
def test_a_drain_has_some_time_and_at_most_a_day(seconds: str) -> None:
    with pytest.raises(UserError, match=f"--timeout-s {seconds}: must be above 0, and 86400 at most"):
        flags.drain(["--timeout-s", seconds])


def test_the_folder_of_a_status_must_be_a_sweep(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a sweep"):
        flags.status([str(tmp_path)])
    (tmp_path / "record.journal").touch()
    assert flags.status([str(tmp_path)]) == {"address": None, "folder": tmp_path}
    assert flags.status([]) == {"address": None, "folder": None}


def test_a_pc_joins_again_from_its_own_keyboard() -> None:
    assert flags.back([]) == {}
    with pytest.raises(UserError, match="pc2: not a flag; type the command on the PC that is to join"):
        flags.back(["pc2"])
