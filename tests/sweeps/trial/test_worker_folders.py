"""A checkpoint of the first PC, on the PC of another worker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sweeps.common.errors import PCUnfit
from sweeps.storage import scratch
from sweeps.training.checkpoints import checkpoint_store
from sweeps.trial import worker
from sweeps.trial.worker import Folders
from tests.sweeps.trial.first_pc import FirstPC, checkpoint


@pytest.mark.slow
def test_one_of_two_workers_of_a_pc_takes_a_checkpoint_and_both_have_it(
    first_pc: FirstPC, tmp_path: Path
) -> None:
    """Also where another process of that PC removes what dead ones left there."""
    original = checkpoint(first_pc)
    one, other = Folders(tmp_path), Folders(tmp_path)
    folder = one.copy(original, first_pc.node)
    another = scratch.new_folder()
    shutil.rmtree(first_pc.root / "sent")
    assert other.copy(original, first_pc.node) == folder, "nothing is fetched again"
    other.clear()
    assert checkpoint_store.fault(folder) is None
    one.clear()
    assert not list(tmp_path.glob(f"{scratch.PREFIX}*")), "no lock file is left behind"
    another.rmdir()


def test_a_checkpoint_that_is_visible_is_read_where_it_is(first_pc: FirstPC, tmp_path: Path) -> None:
    checkpoint(first_pc)
    there = first_pc.root / "sent" / "epoch_0001"
    folders = Folders(tmp_path)
    assert folders.copy(worker.original_of(there), first_pc.node) == there
    folders.clear()
    assert checkpoint_store.fault(there) is None


@pytest.mark.slow
def test_a_pc_that_does_not_hand_out_its_checkpoint_is_named(first_pc: FirstPC, tmp_path: Path) -> None:
    original = checkpoint(first_pc)
    shutil.rmtree(first_pc.root / "sent")
    folders = Folders(tmp_path)
    with pytest.raises(
        PCUnfit, match="the PC of the first worker, which has the checkpoint, does not answer"
    ):
        folders.copy(original, first_pc.node)
    folders.clear()
    assert not list(tmp_path.glob(f"{scratch.PREFIX}*/epoch_0001"))
