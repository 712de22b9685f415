"""The first steps of points that are no trials, in the process of one."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import PCUnfit
from sweeps.storage.open import Folder
from sweeps.training import torch_state
from sweeps.training.config import FitConfig
from sweeps.trial.job import Job
from sweeps.trial.messages import (
    Failed,
    Failure,
    Finding,
    Left,
    OutOfMemory,
    WorkerFailed,
    message_of,
    unfit,
)
from sweeps.trial.runner import TrialRunner
from sweeps.trial.trainable import SweepTrial, findings
from sweeps.trial.worker_group import WorkerGroup
from tests.conftest import fill_up
from tests.faulty import stepwise
from tests.support.prepared import prepare_small
from tests.support.trainables import described

pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.fixture(autouse=True)
def toys_diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))


def job_of(trainable: str, metric: str, folder: Path) -> Job:
    fit = FitConfig(max_epochs=3, metric=metric, mode="max")
    return Job(
        trainables={"net": described(trainable, "net")},
        storage=Folder(folder),
        fit=fit,
        max_failures=2,
        checkpoint_epochs=None,
    )


def config(**params: Any) -> dict[str, Any]:
    return {"number": 0, "trainable": "net", "params": params, "fixed": {}, "seed": 5}


def found_of(runner: TrialRunner, own: Mapping[str, Any] | None = None, **params: Any) -> list[Finding]:
    return findings(runner, config(**params), own)


def the_one(found: list[Finding]) -> Finding:
    (one,) = found
    return one


def test_a_point_that_trains_says_what_it_takes_also_on_a_full_disk(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is written."""
    fill_up(small_disk)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    runner = TrialRunner(job_of("trainables.digits_mlp", "val_acc", tmp_path))
    one = the_one(found_of(runner, lr=0.1, momentum=0.9, hidden=512))
    assert (one.end, one.device) == (None, "")
    assert one.epoch_s is not None
    assert one.epoch_s > 0
    assert one.memory_gb > 0
    assert one.checkpoint_bytes == 3 * 4 * (64 * 512 + 512 + 512 * 10 + 10), "weights twice, momentum"
    assert list(tmp_path.glob("**/trial_*")) == []


@pytest.mark.parametrize("missing", [False, True], ids=["data", "storage"])
def test_nothing_is_found_out_on_a_pc_that_can_train_no_trial(missing: bool, tmp_path: Path) -> None:
    """The step of its trial tells it, and the PC is left out."""
    storage = tmp_path / "gone" if missing else tmp_path
    runner = TrialRunner(job_of("tests.faulty.unfit", "score", storage))
    assert found_of(runner, fault="none" if missing else "unfit") == []


def fail_other_worker(failure: Failure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another worker of each group fail, on its own PC."""

    def start(group: WorkerGroup, job: Job) -> None:
        raise WorkerFailed(failure)

    monkeypatch.setattr(WorkerGroup, "__init__", start)


def pair_of(folder: Path) -> TrialRunner:
    """Of trials with two workers."""
    job = job_of("tests.faulty.early", "score", folder)
    return TrialRunner(replace(job, fit=replace(job.fit, devices=2)))


def test_nor_where_the_pc_of_another_worker_can_train_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_other_worker(unfit(PCUnfit("the disk of /prepared is full")), monkeypatch)
    assert found_of(pair_of(tmp_path)) == []


def test_a_point_that_raises_is_broken_and_not_retried(tmp_path: Path) -> None:
    runner = TrialRunner(job_of("tests.faulty.early", "score", tmp_path))
    one = the_one(found_of(runner, fault="step"))
    assert isinstance(one.end, Failed)
    assert one.end.reason == "RuntimeError: the toy can't take a step"
    assert one.end.traceback.count("the toy can't take a step") == 2, "its line, and its text"


def test_a_user_s_mistake_is_known_as_such(tmp_path: Path) -> None:
    one = the_one(found_of(TrialRunner(job_of("tests.faulty.early", "score", tmp_path)), fault="mute"))
    assert isinstance(one.end, Failed)
    assert one.end.is_user_error
    assert one.end.reason == "metric 'score' was not logged; logged: other"


def test_the_trial_s_own_point_is_tried_where_one_is_broken(tmp_path: Path) -> None:
    runner = TrialRunner(job_of("tests.faulty.early", "score", tmp_path))
    found = found_of(
        runner, config(fault="step", only_large=True, size=1), fault="step", only_large=True, size=4
    )
    assert [each.is_broken for each in found] == [True, False]
    assert len(found_of(runner, config(size=1), size=4)) == 1


class Copied:
    """A DataSource that copies the prepared data when it is first asked for it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._is_there = folder, False

    def here(self, say: Callable[[str], object]) -> Path:
        if not self._is_there:
            say("64 MB of prepared data copied to pc1 first, in 9 s")
        self._is_there = True
        return self._folder


def test_what_was_copied_for_the_first_steps_is_told_by_the_trial_after_them(tmp_path: Path) -> None:
    data: Any = Copied(prepare_small(stepwise, stepwise.Params(), tmp_path / "prepared"))
    job = job_of("tests.faulty.stepwise", "val_loss", tmp_path)
    runner = TrialRunner(replace(job, prepared={("net", ()): data}))
    assert the_one(found_of(runner)).end is None
    runner.begin(config())
    assert runner.step().notices == ("64 MB of prepared data copied to pc1 first, in 9 s",)
    assert runner.step().notices == ()
    runner.end()


@pytest.mark.parametrize(
    ("case", "is_infeasible", "why"),
    [
        ("half", False, "it goes on with micro-batches of 8 rows, 2 for each step"),
        ("norm", False, "its result differs from that of whole batches"),
        ("unsplit", True, "Rows has no attribute batch_size"),
        ("model", True, "memory ran out before the first step: the model itself does not fit"),
    ],
)
def test_one_out_of_memory_says_how_it_goes_on_or_why_it_can_not(
    case: str, is_infeasible: bool, why: str, tmp_path: Path
) -> None:
    one = the_one(found_of(TrialRunner(job_of("tests.faulty.hungry", "val_loss", tmp_path)), case=case))
    assert isinstance(one.end, OutOfMemory)
    assert (one.end.micro_batch is None, one.is_broken) == (is_infeasible, False)
    assert why in one.end.reason + one.end.caution


def trial_of(job: Job, **params: Any) -> Any:
    class Trial(SweepTrial):
        def setup(self, config: dict[str, Any], **shared: Any) -> None:
            super().setup(config, job=job)

    return Trial(config(**params))


def test_a_trial_waits_once_where_no_point_trains(tmp_path: Path) -> None:
    """The driver ends the sweep meanwhile, or has it train where another kind of GPU can."""
    trial = trial_of(job_of("tests.faulty.early", "score", tmp_path), fault="step")
    found = trial.preflight(config(fault="step"))
    assert [each.is_broken for each in found] == [True, True]
    assert message_of(trial.train()).end == Left("")
    assert isinstance(message_of(trial.train()).end, Failed)
    trial.stop()


def test_behind_one_that_spoils_the_process_no_other_is_tried_and_the_trial_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no GPU that a kernel could spoil."""
    trial = trial_of(job_of("tests.faulty.early", "score", tmp_path), fault="step")
    answers = itertools.chain([True], itertools.repeat(False))  # before the point, and behind it
    monkeypatch.setattr(torch_state, "free_memory", lambda: next(answers))
    found = trial.preflight(config(fault="step"))
    assert [each.is_broken for each in found] == [True]
    assert found[0].is_last
    assert not trial._waits


def test_the_failure_of_another_worker_is_told_as_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "RuntimeError: no GPU (in another worker, on pc2)"
    fail_other_worker(Failed(reason=reason, traceback=""), monkeypatch)
    one = the_one(found_of(pair_of(tmp_path)))
    assert isinstance(one.end, Failed)
    assert one.end.reason == reason
