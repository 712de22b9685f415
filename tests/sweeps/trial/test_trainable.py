"""Warm trials: many in one process, and nothing of one is seen by the next."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.tune import logger as ray_logger

from sweeps.storage.open import Folder, backend_of
from sweeps.storage.remote import Remote
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.trial.job import Job
from sweeps.trial.messages import (
    SAVED,
    Diverged,
    Failed,
    Finished,
    Message,
    NotSaved,
    Saved,
    Unfit,
    message_of,
)
from sweeps.trial.trainable import SweepTrial
from tests.conftest import fill_up
from tests.support.servers import sshd
from tests.support.trainables import described

EPOCHS = 3
NAME = "net"
SEED = 5
FIRST = {"lr": 0.05, "momentum": 0.9, "hidden": 16}
SECOND = {"lr": 0.3, "momentum": 0.2, "hidden": 32}


pytestmark = pytest.mark.usefixtures("ray_session")


READ_ONLY = Path("/proc")
"""A folder that is there, and holds no checkpoint."""


def _job(trainable: str = "trainables.digits_mlp", folder: Path = READ_ONLY, **changes: Any) -> Job:
    metric = "val_acc" if trainable.endswith("digits_mlp") else "score"
    fit = FitConfig(max_epochs=EPOCHS, metric=metric, mode="max", seed=99)
    settings: dict[str, Any] = {"fit": fit, "max_failures": 0, "checkpoint_epochs": None, **changes}
    return Job(trainables={NAME: described(trainable, NAME)}, storage=Folder(folder), **settings)


Start = Callable[..., SweepTrial]


@pytest.fixture
def start() -> Iterator[Start]:
    """Begin a trial as an actor would; stopped when the test ends."""
    begun = []

    def begin(job: Job, params: dict[str, Any]) -> SweepTrial:
        class Trial(SweepTrial):
            def setup(self, config: dict[str, Any], **shared: Any) -> None:
                super().setup(config, job=job)

        begun.append(Trial({"number": 0, "trainable": NAME, "params": params, "fixed": {}, "seed": SEED}))
        return begun[-1]

    yield begin
    for trial in begun:
        trial.stop()


def _step(trial: SweepTrial) -> Message:
    return message_of(trial.train())


def _report(trial: SweepTrial) -> Report:
    """Of its next epoch."""
    report = _step(trial).report
    assert report is not None
    return report


def _train(trial: SweepTrial, epochs: int = EPOCHS) -> list[Any]:
    return [_report(trial).metrics for _ in range(epochs)]


def _then(trial: SweepTrial, params: dict[str, Any], number: int = 1, **more: Any) -> SweepTrial:
    config = {"number": number, "trainable": NAME, "params": params, "fixed": {}, "seed": SEED}
    # Until Ray 2.5x a trial has a logger, which Tune gives it.
    takes_logger = "logger_creator" in inspect.signature(trial.reset).parameters
    log: Any = ray_logger
    logger = {"logger_creator": lambda it: log.NoopLogger(it, trial.logdir)} if takes_logger else {}
    assert trial.reset({**config, **more}, **logger)
    return trial


def _live_models() -> int:
    gc.collect()
    return sum(type(thing).__name__ == "Classifier" for thing in gc.get_objects())


@pytest.fixture
def alone(start: Start) -> list[dict[str, float]]:
    """The second trial with nothing before it."""
    return _train(start(_job(), SECOND))


STARTED = """
import sys
from sweeps.trial.trainable import SweepTrial

class Started(SweepTrial):
    def __init__(self):
        self.setup({}, job=None)

Started().cleanup()
print("torch" in sys.modules)
"""


@pytest.mark.slow
def test_a_process_starts_without_pytorch() -> None:
    """One that starts slowly would never get a short trial on a PC that joins."""
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize("epochs", [EPOCHS, 1])
def test_a_trial_trains_alike_after_another_one(
    start: Start, alone: list[dict[str, float]], epochs: int
) -> None:
    """Also after one that was pruned in the middle."""
    trial = start(_job(), FIRST)
    _train(trial, epochs)
    assert _train(_then(trial, SECOND)) == alone


UNTIDY = """
from trainables.digits_mlp import METRIC, MODE, Params, build_data, build_model
import torch
torch.set_num_threads(3)
torch.backends.cudnn.benchmark = True
"""


def test_a_trial_trains_alike_after_one_of_another_model(
    start: Start, alone: list[dict[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same process, and whatever the import of the other one did to it."""
    (tmp_path / f"untidy_{tmp_path.name}").mkdir()
    (tmp_path / f"untidy_{tmp_path.name}" / "model.py").write_text(UNTIDY)
    monkeypatch.syspath_prepend(tmp_path)
    job = dataclasses.replace(
        _job(),
        trainables={
            NAME: described("trainables.digits_mlp", NAME),
            "other": described(f"untidy_{tmp_path.name}.model", "other"),
        },
    )
    trial = start(job, FIRST)
    _train(trial, 1)
    other = _train(_then(trial, {"hidden": 8}, trainable="other"), 1)
    assert torch.backends.cudnn.benchmark, "the settings of the other one"
    assert _train(_then(trial, SECOND)) == alone != other
    assert not torch.backends.cudnn.benchmark
    _train(_then(trial, {"hidden": 8}, trainable="other"), 1)
    assert torch.backends.cudnn.benchmark


def test_a_model_that_can_not_be_imported_fails_its_trials_and_no_others(
    start: Start, alone: list[dict[str, float]]
) -> None:
    job = dataclasses.replace(
        _job(),
        trainables={
            NAME: described("trainables.digits_mlp", NAME),
            "gone": described("no_such_package", "gone"),
        },
    )
    trial = start(job, SECOND)
    end = _step(_then(trial, {}, trainable="gone")).end
    assert isinstance(end, Failed)
    assert end.reason == "ModuleNotFoundError: No module named 'no_such_package'"
    assert _train(_then(trial, SECOND)) == alone


def test_random_numbers_drawn_elsewhere_change_nothing(start: Start, alone: list[dict[str, float]]) -> None:
    trial = start(_job(), FIRST)
    _train(trial, 1)
    torch.manual_seed(99)
    random.seed(99)
    np.random.seed(99)
    torch.rand(10)
    assert _train(_then(trial, SECOND)) == alone


def test_settings_that_a_trial_left_behind_change_nothing(
    start: Start, alone: list[dict[str, float]]
) -> None:
    trial = start(_job(), FIRST)
    _train(trial, 1)
    torch.set_num_threads(2)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    try:
        assert _train(_then(trial, SECOND)) == alone
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


def test_no_threads_and_no_models_pile_up(start: Start) -> None:
    trial = start(_job(), FIRST)
    _train(trial)
    threads, before = threading.active_count(), _live_models()
    for _ in range(5):
        _train(_then(trial, SECOND), 2)
    _then(trial, FIRST)
    assert threading.active_count() <= threads
    assert _live_models() <= before


def test_data_is_loaded_once_and_no_trial_changes_it(start: Start) -> None:
    from trainables._shared import digits

    trial = start(_job(), FIRST)
    _train(trial, 1)
    images = digits._rows()["train"][0]
    before = images.clone()
    _train(_then(trial, SECOND))
    assert digits._rows()["train"][0] is images
    assert torch.equal(images, before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_gpu_memory_is_given_back_between_trials(start: Start) -> None:
    trial = start(_job(), FIRST)
    _train(trial, 1)
    _then(trial, SECOND)
    before = torch.cuda.memory_allocated()  # with what the libraries of this process keep for good
    _train(trial, 1)
    _then(trial, FIRST)
    assert torch.cuda.memory_allocated() < before + 2**20


def test_a_trial_goes_on_from_its_checkpoint_in_another_process(
    start: Start, alone: list[dict[str, float]], tmp_path: Path
) -> None:
    job = _job(folder=tmp_path)
    first = start(job, SECOND)
    _train(first, 2)
    first.save_checkpoint(str(tmp_path))
    second = start(_job(), FIRST)
    _train(second, 1)
    second = start(job, SECOND)
    known, last = _step(second), _step(second)
    assert known.report is not None
    assert (known.report.epoch, known.report.metrics, known.end) == (2, alone[1], None)
    assert last.report is not None
    assert (last.report.epoch, last.report.metrics, last.end) == (3, alone[2], Finished())
    assert known.notices == last.notices == ()


def test_a_trial_that_was_lost_after_its_last_checkpoint_ends_without_training(
    start: Start, alone: list[dict[str, float]], tmp_path: Path
) -> None:
    job = _job(folder=tmp_path)
    first = start(job, SECOND)
    _train(first)
    first.save_checkpoint(str(tmp_path))
    second = start(job, SECOND)
    message = _step(second)
    assert message.report is not None
    assert (message.report.epoch, message.report.metrics, message.end) == (3, alone[2], Finished())
    (checkpoint,) = checkpoint_store.all_of(checkpoint_store.folder_of(tmp_path, 0))
    written = (checkpoint / "resume.ckpt").stat()
    second.save_checkpoint(str(tmp_path))
    assert (checkpoint / "resume.ckpt").stat() == written, "there is nothing new to save"


def test_training_that_had_ended_by_itself_does_not_go_on_after_a_resume(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    job = _job("tests.faulty.toy", folder=tmp_path)
    first = start(job, {"fault": "stops"})
    assert [_report(first).epoch for _ in range(2)] == [1, 2]
    assert _step(first).report is None
    first.save_checkpoint(str(tmp_path))
    second = start(job, {"fault": "stops"})
    known = _report(second)
    assert (known.epoch, known.score) == (2, 2.0)
    assert _step(second).end == Finished("ended by itself after epoch 2")
    assert (tmp_path / "epochs").read_text().splitlines() == ["1.0 1", "1.0 2"]


def test_a_broken_checkpoint_falls_back_to_the_one_before_and_says_so(
    start: Start, alone: list[dict[str, float]], tmp_path: Path
) -> None:
    job = _job(folder=tmp_path)
    first = start(job, SECOND)
    for _ in range(2):
        first.train()
        first.save_checkpoint(str(tmp_path))
    newest, before = checkpoint_store.all_of(checkpoint_store.folder_of(tmp_path, 0))
    content = bytearray((newest / "resume.ckpt").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "resume.ckpt").write_bytes(content)
    trial = start(job, SECOND)
    known, report = _step(trial), _report(trial)
    assert known.report is not None
    assert (known.report.epoch, report.epoch, report.metrics) == (1, 2, alone[1])
    (notice,) = known.notices
    damage = "resume.ckpt has changed since it was written"
    assert f"epoch 2 is damaged ({damage}): the trial resumes after epoch 1" in notice
    (before / "manifest.json").unlink()
    message = _step(start(job, SECOND))
    assert message.report is not None
    assert (message.report.epoch, message.report.metrics) == (1, alone[0])
    assert "the trial starts again from epoch 1" in message.notices[0]


def test_a_full_disk_costs_a_checkpoint_and_not_the_trial(
    start: Start, small_disk: Path, tmp_path: Path
) -> None:
    trial = start(_job(folder=small_disk), SECOND)
    trial.train()
    trial.save_checkpoint(str(tmp_path))
    fill_up(small_disk)
    trial.train()
    trial.save_checkpoint(str(tmp_path))
    assert [path.name for path in (small_disk / "checkpoints" / "trial_0000").iterdir()] == ["epoch_0001"]
    message = _step(trial)
    assert message.report is not None
    assert message.report.epoch == 3
    assert message.notices == ("no checkpoint of epoch 2: the disk is full",)
    assert checkpoint_store.newest(checkpoint_store.folder_of(small_disk, 0))[0] is not None


def test_a_storage_that_is_gone_costs_a_checkpoint_and_not_the_trial(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("asyncssh")
    with sshd(tmp_path / "sshd") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(server.home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        job = dataclasses.replace(_job(), storage=Remote(backend_of(server.url), "far", (0.1,)))
        trial = start(job, SECOND)
        trial.train()
        trial.save_checkpoint(str(tmp_path))
        assert job.storage.epochs(0) == [1]
        server.stop()
        trial.train()
        trial.save_checkpoint(str(tmp_path))
        (notice,) = _step(trial).notices
        assert notice.startswith(f"no checkpoint of epoch 2: {server.url}: ")
        lost = _step(start(job, SECOND)).end
        assert isinstance(lost, Unfit)
        assert lost.reason.startswith(f"{server.url}: ")
        server.start()
        again = start(job, SECOND)
        assert [_report(again).epoch for _ in range(2)] == [1, 2], "from the checkpoint before"


def test_a_trial_on_a_pc_that_can_not_train_it_has_not_failed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    trial = start(_job("tests.faulty.unfit", folder=tmp_path), {"fault": "unfit"})
    end = _step(trial).end
    assert isinstance(end, Unfit)
    assert end.reason == "the disk of /prepared is full"
    assert end.node == ray.get_runtime_context().get_node_id()
    assert _report(_then(trial, {"fault": "none"})).epoch == 1, "the process lives on"


def test_checkpoints_come_every_so_many_epochs_and_not_at_the_end(start: Start) -> None:
    trial = start(_job(checkpoint_epochs=1), FIRST)
    due = [bool(trial.train().get("should_checkpoint")) for _ in range(EPOCHS)]
    assert due == [True, True, False], "who saves at the end is the driver's decision"


def test_short_trials_write_no_checkpoint_by_default(start: Start) -> None:
    trial = start(_job(), FIRST)
    assert not any(trial.train().get("should_checkpoint") for _ in range(EPOCHS))


def test_a_retry_goes_on_from_the_last_checkpoint(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    trial = start(_job("tests.faulty.toy", folder=tmp_path, max_failures=1), {"fault": "flaky"})
    assert _report(trial).epoch == 1
    trial.save_checkpoint(str(tmp_path))
    # The checkpoint's epoch is reported again, as to a new process.
    assert [_report(trial).epoch for _ in range(3)] == [1, 2, 3]
    assert len((tmp_path / "flaky").read_text().splitlines()) == 2
    assert (tmp_path / "epochs").read_text().splitlines() == ["1.0 1", "1.0 2", "1.0 3"]


def test_what_tune_keeps_of_an_epoch_says_how_large_its_checkpoint_is_or_why_it_is_missing(
    start: Start, tmp_path: Path
) -> None:
    """It is that which the driver hears, with the checkpoint: it is known only behind the report."""
    folder = tmp_path / "share"
    folder.mkdir()
    trial = start(_job(folder=folder, checkpoint_epochs=1), {})
    kept = trial.train()
    trial.save_checkpoint(str(tmp_path))
    files = [path for path in folder.rglob("epoch_0001/*") if path.is_file()]
    assert kept[SAVED] == [Saved(sum(path.stat().st_size for path in files))]
    kept = trial.train()
    folder.rename(tmp_path / "unmounted")
    trial.save_checkpoint(str(tmp_path))
    (fault,) = kept[SAVED]
    assert isinstance(fault, NotSaved)
    assert fault.is_of_storage
    assert fault.reason.endswith("is missing: all PCs must see that folder")
    assert not trial.train()[SAVED], "of the next one nothing is known yet"


def test_an_epoch_without_the_metric_of_another_objective_fails_the_trial_as_the_users_mistake(
    start: Start,
) -> None:
    end = _step(start(_job(other_metrics=("val_acccc",)), FIRST)).end
    assert isinstance(end, Failed)
    assert end.is_user_error
    assert "metric 'val_acccc' was not logged; logged:" in end.reason
    assert "Did you mean 'val_acc'?" in end.reason


def test_a_trial_diverges_by_any_of_its_objectives(start: Start) -> None:
    fit = FitConfig(max_epochs=EPOCHS, metric="acc", mode="max")
    job = _job("tests.faulty.two_metrics", fit=fit, other_metrics=("size_m",))
    trial = start(job, {"bad_epoch": 2})
    assert _step(trial).end is None
    assert _step(trial).end == Diverged("size_m was nan in epoch 2")
