"""What another worker of a trial does on a PC that shares no folder with the first one's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.storage import data_source
from sweeps.storage.open import Folder
from sweeps.training.config import FitConfig
from sweeps.training.distributed import cluster_environment
from sweeps.trial.job import Job
from sweeps.trial.messages import Unfit, WorkerFailed
from sweeps.trial.worker import Worker
from tests.conftest import fill_up
from tests.support.trainables import described

pytestmark = pytest.mark.usefixtures("ray_session")
HERE = "127.0.0.1"
CONFIG: dict[str, Any] = {"number": 0, "trainable": "pair", "params": {}, "fixed": {}, "seed": 3}


class Counted(Folder):
    """A folder that counts how often downloads are forgotten."""

    forgotten = 0

    def forget_downloads(self) -> None:
        self.forgotten += 1


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Of a worker group of one: its state is in the shards of ZeRO."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    fit = FitConfig(max_epochs=3, metric="val_loss", mode="min", strategy="deepspeed_stage_2")
    trainables = {"pair": described("tests.faulty.pair", "pair")}
    return Job(trainables=trainables, storage=Counted(tmp_path), fit=fit, max_failures=0, checkpoint_epochs=1)


@pytest.fixture
def port() -> Iterator[int]:
    """Of the store where a group meets."""
    store = cluster_environment.open_store(HERE)
    yield store.port
    cluster_environment.end_groups()


def leave(worker: Worker) -> None:
    """What the end of its process does."""
    assert worker.fit is not None
    worker.fit.release()
    cluster_environment.end_groups()
    worker.clear()


@pytest.mark.slow
def test_shards_are_handed_over_and_read_from_the_storage_and_leave_nothing_behind(
    job: Job, port: int, tmp_path: Path
) -> None:
    folder = tmp_path / "of_the_first" / "epoch_0001"
    worker = Worker(job, 0)
    worker.begin(CONFIG, HERE, port)
    worker.advance()
    files = worker.save(folder)
    assert any("optim_states" in file.name for file in files)

    def fill(whole: Path) -> None:
        for file in files:
            data_source.copy_file(file, folder, whole, lambda path, _: iter([path.read_bytes()]))

    job.storage.write(0, 1, fill, {})
    worker.clear()
    assert not folder.parent.exists()
    leave(worker)

    again, worker = cluster_environment.open_store(HERE), Worker(job, 0)
    worker.begin(CONFIG, HERE, again.port, Path("/on/the/first/pc/epoch_0001"))
    worker.advance()
    leave(worker)
    assert isinstance(job.storage, Counted)
    assert job.storage.forgotten == 2, "each time: no copy of a checkpoint stays while it trains"
    begun = (tmp_path / "none-0").read_text().split()[::2]
    assert begun == ["1", "2"], "it went on from the shards"


def test_a_worker_that_finds_another_checkpoint_trains_nothing(job: Job, port: int) -> None:
    with pytest.raises(WorkerFailed, match="it does not find the checkpoint of epoch 7"):
        Worker(job, 1).begin(CONFIG, HERE, port, Path("/on/the/first/pc/epoch_0007"))


def test_a_worker_that_fails_says_why(job: Job, port: int) -> None:
    config = {**CONFIG, "params": {"nothing": 1}}
    with pytest.raises(WorkerFailed, match=r"nothing.*\(in another worker, on "):
        Worker(job, 1).begin(config, HERE, port)
    with pytest.raises(WorkerFailed, match="nothing") as failed:
        Worker(job, 0).begin(config, HERE, port)
    assert "another worker" not in str(failed.value), "of the first one it is not said"


@pytest.mark.usefixtures("handlers_as_before")
def test_a_pc_that_keeps_no_output_can_not_train(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
    with pytest.raises(WorkerFailed, match="what it prints can't be kept: ") as failed:
        Worker(job, 1).introduce()
    assert isinstance(failed.value.failure, Unfit)


def test_a_disk_that_is_full_is_the_fault_of_its_pc(job: Job, small_disk: Path) -> None:
    worker, folder = Worker(job, 0), small_disk / "of_the_first" / "epoch_0001"
    worker.check_room(folder, 1000)
    filled = fill_up(small_disk, leave=50_000)
    with pytest.raises(WorkerFailed, match="is full"):
        worker.check_room(folder, 10**6)
    filled.unlink()
