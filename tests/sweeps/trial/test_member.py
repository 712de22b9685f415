"""What another worker of a trial does on a PC that shares no folder with the first one's."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeps.cluster import broadcast
from sweeps.common.errors import PCUnfit
from sweeps.storage import folder_copy, scratch
from sweeps.storage.folder import Folder
from sweeps.storage.folder_copy import File, Original
from sweeps.training import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment
from sweeps.trial import checkpoint_copy
from sweeps.trial.checkpoint_copy import Folders
from sweeps.trial.job import Job
from sweeps.trial.member import Answer, Member
from tests.conftest import ROOT, fill_up

CONFIG: dict[str, Any] = {"trainable": "pair", "params": {}, "fixed": {}, "seed": 3}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Of a worker group of one: its state is in the shards of ZeRO."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    fit = FitConfig(max_epochs=3, metric="val_loss", mode="min", strategy="deepspeed_stage_2")
    trainables = {"pair": "tests.faulty.pair"}
    return Job(trainables=trainables, storage=Folder(tmp_path), fit=fit, max_failures=0, checkpoint_epochs=1)


def answer(given: Answer) -> Any:
    failure, value = given
    assert failure is None, failure["traceback"]
    return value


class FirstPC:
    """The PC of the first worker: what its relative paths name is visible to its processes alone."""

    def __init__(self, node: str, root: Path) -> None:
        self.node, self._root = node, root

    def original(self, checkpoint: str) -> Original:
        return dataclasses.replace(checkpoint_copy.original_of(self._root / checkpoint), folder=checkpoint)


@pytest.fixture
def first_pc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirstPC]:
    (root := tmp_path / "first_pc").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(root)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    monkeypatch.chdir(tmp_path)
    yield FirstPC(broadcast.here(), root)
    ray.shutdown()


def test_shards_are_handed_over_and_back_and_leave_nothing_behind(
    job: Job, first_pc: FirstPC, tmp_path: Path
) -> None:
    folder = tmp_path / "of_the_first" / "epoch_0001"
    first = WorkerGroupEnvironment.open("127.0.0.1", 1)
    member = Member(job, 0)
    answer(member.begin(CONFIG, first.rendezvous))
    answer(member.train(True))
    files = answer(member.save(folder))
    assert any("optim_states" in file.name for file in files)
    whole = tmp_path / "first_pc" / "whole" / "epoch_0001"

    def fetch(file: File, offset: int) -> Iterator[Any]:
        half = file.size_bytes // 2
        for begin, end in ((offset, half), (half, file.size_bytes)):
            yield answer(member.read(str(folder), file.name, begin, end - begin))

    assert all(folder_copy.copy_file(file, whole, fetch) for file in files)
    answer(member.clear())
    assert not folder.parent.exists()
    member.leave()

    checkpoint_store.seal(whole)
    again = WorkerGroupEnvironment.open("127.0.0.1", 1)
    answer(member.begin(CONFIG, again.rendezvous, first_pc.original("whole/epoch_0001"), first_pc.node))
    sent = (whole / checkpoint_store.MANIFEST).read_text()
    manifests = Path(tempfile.gettempdir()).glob(f"{scratch.PREFIX}*/epoch_0001/{checkpoint_store.MANIFEST}")
    (copy,) = (each.parent for each in manifests if each.read_text() == sent)
    assert checkpoint_store.fault(copy) is None
    answer(member.train(True))
    assert not copy.parent.exists(), "it was read"
    member.leave()
    begun = (tmp_path / "none-0").read_text().split()[::2]
    assert begun == ["1", "2"], "it went on from the shards"


def checkpoint(first_pc: FirstPC, root: Path, content: bytes = b"weights") -> Original:
    folder = root / "first_pc" / "sent" / "epoch_0001"
    folder.mkdir(parents=True)
    (folder / "weights.pt").write_bytes(content)
    checkpoint_store.seal(folder)
    return first_pc.original("sent/epoch_0001")


def test_one_of_two_workers_of_a_pc_takes_a_checkpoint_and_both_have_it(
    first_pc: FirstPC, tmp_path: Path
) -> None:
    """Also where another process of that PC removes what dead ones left there."""
    original = checkpoint(first_pc, tmp_path)
    one, other = Folders(tmp_path), Folders(tmp_path)
    folder = one.copy(original, first_pc.node)
    another = scratch.new_folder()
    shutil.rmtree(tmp_path / "first_pc" / "sent")
    assert other.copy(original, first_pc.node) == folder, "nothing is fetched again"
    other.clear()
    assert checkpoint_store.fault(folder) is None
    one.clear()
    assert not list(tmp_path.glob(f"{scratch.PREFIX}*")), "no lock file is left behind"
    another.rmdir()


def test_a_checkpoint_that_is_visible_is_read_where_it_is(first_pc: FirstPC, tmp_path: Path) -> None:
    checkpoint(first_pc, tmp_path)
    there = tmp_path / "first_pc" / "sent" / "epoch_0001"
    folders = Folders(tmp_path)
    assert folders.copy(checkpoint_copy.original_of(there), first_pc.node) == there
    folders.clear()
    assert checkpoint_store.fault(there) is None


def test_a_pc_that_does_not_hand_out_its_checkpoint_is_named(first_pc: FirstPC, tmp_path: Path) -> None:
    original = checkpoint(first_pc, tmp_path)
    shutil.rmtree(tmp_path / "first_pc" / "sent")
    folders = Folders(tmp_path)
    with pytest.raises(
        PCUnfit, match="the PC of the first worker, which has the checkpoint, does not answer"
    ):
        folders.copy(original, first_pc.node)
    folders.clear()
    assert not list(tmp_path.glob(f"{scratch.PREFIX}*/epoch_0001"))


def test_a_member_that_fails_says_why_and_lives_on(job: Job) -> None:
    member = Member(job, 0)
    wrong = {**CONFIG, "params": {"nothing": 1}}
    one, other = (WorkerGroupEnvironment.open("127.0.0.1", 1) for _ in range(2))
    failure, _ = member.begin(wrong, one.rendezvous)
    assert failure is not None
    assert "nothing" in failure["reason"]
    assert "(in another worker, on " in failure["reason"]
    answer(member.begin(CONFIG, other.rendezvous))
    member.leave()


def test_a_disk_that_is_full_is_the_fault_of_its_pc(
    job: Job, first_pc: FirstPC, tmp_path: Path, small_disk: Path
) -> None:
    original = checkpoint(first_pc, tmp_path, content=bytes(10**5))
    member, folder = Member(job, 0), small_disk / "of_the_first" / "epoch_0001"
    assert answer(member.lack_of_room(folder, 1000)) is None
    filled = fill_up(small_disk, leave=50_000)
    assert "is full" in answer(member.lack_of_room(folder, 10**6))["unfit"]
    with pytest.raises(PCUnfit, match=rf"the disk of {small_disk}/\S+ has no room: 100 kB needed, "):
        Folders(small_disk).copy(original, first_pc.node)
    filled.unlink()
