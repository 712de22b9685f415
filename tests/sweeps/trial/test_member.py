"""What another worker of a trial does on a PC that shares no folder with the first one's."""

from __future__ import annotations

import logging
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeps.storage import scratch
from sweeps.storage.folder import Folder
from sweeps.training import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.training.distributed.cluster_environment import Gang
from sweeps.trial.job import Job
from sweeps.trial.member import Member, Said
from tests.conftest import fill_up

CONFIG: dict[str, Any] = {"trainable": "pair", "params": {}, "fixed": {}, "seed": 3}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Of a gang of one, which is a gang as well: its state is in the shards of ZeRO."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    fit = FitConfig(max_epochs=3, metric="val_loss", mode="min", strategy="deepspeed_stage_2")
    trainables = {"pair": "tests.faulty.pair"}
    return Job(trainables=trainables, storage=Folder(tmp_path), fit=fit, max_failures=0, checkpoint_epochs=1)


def answer(said: Said) -> Any:
    failure, value = said
    assert failure is None, failure["traceback"]
    return value


def test_shards_are_handed_over_and_back_and_leave_nothing_behind(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "of_the_first" / "epoch_0001"
    first = Gang.opened("127.0.0.1", 1)
    member = Member(job)
    answer(member.begin(CONFIG, first.seat, None))
    answer(member.train())
    files = answer(member.save(folder))
    assert any("optim_states" in name for name in files)
    content = {name: answer(member.read(name, 0, size)) for name, size in files.items()}
    assert {name: len(each) for name, each in content.items()} == files
    answer(member.clear())
    assert not folder.parent.exists()
    member.part()

    whole = tmp_path / "whole"
    for name, each in content.items():
        (whole / name).parent.mkdir(parents=True, exist_ok=True)
        (whole / name).write_bytes(each)
    checkpoint_store.seal(whole)
    manifest = (whole / checkpoint_store.MANIFEST).read_text()
    assert not answer(member.lacks(whole, manifest)), "it is seen from here"
    assert answer(member.lacks(folder, manifest))
    for file in (path for path in whole.rglob("*") if path.is_file()):
        half = file.stat().st_size // 2
        for part in (file.read_bytes()[:half], file.read_bytes()[half:]):
            answer(member.take(folder, str(file.relative_to(whole)), part))
    assert checkpoint_store.fault(folder) is None
    again = Gang.opened("127.0.0.1", 1)
    answer(member.begin(CONFIG, again.seat, folder))
    answer(member.train())
    assert not folder.parent.exists(), "it was read"
    member.part()
    begun = (tmp_path / "none-0").read_text().split()[::2]
    assert begun == ["1", "2"], "it went on from the shards"


def test_one_of_two_workers_of_a_pc_takes_a_checkpoint_and_both_have_it(job: Job, tmp_path: Path) -> None:
    """Also where another process of that PC removes what dead ones left there."""
    name = f"{scratch.PREFIX}{uuid.uuid4().hex}"
    folder = Path(tempfile.gettempdir()) / name / "epoch_0001"
    one, other = Member(job), Member(job)
    sent = tmp_path / "sent"
    sent.mkdir()
    (sent / "weights.pt").write_bytes(b"weights")
    checkpoint_store.seal(sent)
    manifest = (sent / checkpoint_store.MANIFEST).read_text()
    assert [answer(member.lacks(folder, manifest)) for member in (one, other)] == [True, False]
    another = scratch.new_folder()
    for file in (sent / "weights.pt", sent / checkpoint_store.MANIFEST):
        answer(one.take(folder, file.name, file.read_bytes()))
    assert [answer(member.has(folder, manifest)) for member in (one, other)] == [None, None]
    (folder / "weights.pt").write_bytes(b"weighed")
    failure, _ = one.has(folder, manifest)
    assert failure is not None
    assert "weights.pt is not as it was written" in failure["reason"]
    assert not folder.parent.exists(), "it failed, and leaves nothing behind"
    another.rmdir()


def test_a_member_that_fails_says_why_and_lives_on(job: Job) -> None:
    member = Member(job)
    wrong = {**CONFIG, "params": {"nothing": 1}}
    one, other = Gang.opened("127.0.0.1", 1), Gang.opened("127.0.0.1", 1)
    failure, _ = member.begin(wrong, one.seat, None)
    assert failure is not None
    assert "nothing" in failure["reason"]
    assert "(in another worker, on " in failure["reason"]
    answer(member.begin(CONFIG, other.seat, None))
    member.part()


def test_a_disk_that_is_full_is_the_fault_of_its_pc(
    job: Job, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, folder = Member(job), small_disk / "of_the_first" / "epoch_0001"
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        assert answer(member.lacks_room(folder, 1000)) is None
        assert answer(member.lacks(folder, "manifest"))
        filled = fill_up(small_disk)
        assert "is full" in answer(member.lacks_room(folder, 10**6))["unfit"]
        failure, _ = member.take(folder, "weights.pt", bytes(10**5))
    finally:
        ray.shutdown()
    assert failure is not None
    assert failure["unfit"] == f"the disk of {folder} is full"
    filled.unlink()
