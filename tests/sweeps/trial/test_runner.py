"""A trial that is asked to leave its run, and how it goes on."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from sweeps.kinds.commands.command_trainable import CommandTrainable
from sweeps.kinds.trainable import Description, LightningTrainable
from sweeps.storage.open import Folder
from sweeps.training import torch_state
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.trial import leave_request
from sweeps.trial.job import Job
from sweeps.trial.messages import Failed, Left, Message
from sweeps.trial.output import LOST
from sweeps.trial.runner import TrialRunner
from tests.faulty import stepwise
from tests.support.prepared import prepare_small
from tests.support.trainables import described
from tests.sweeps.common.plug_in_files import TRAINABLE
from tests.sweeps.kinds.swept import enter

pytestmark = pytest.mark.usefixtures("ray_session", "handlers_as_before")


class Data:
    """As a DataSource answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def here(self, say: object) -> Path:
        return self._folder


def epoch_of(message: Message) -> int:
    assert message.report is not None
    return message.report.epoch


def test_numpy_has_the_threads_of_a_trial(tmp_path: Path) -> None:
    """A process that was forked had one of them."""
    with threadpool_limits(1, "blas"):
        fit = FitConfig(max_epochs=1, metric="val_loss", mode="min", threads=2)
        TrialRunner(
            Job(trainables={}, storage=Folder(tmp_path), fit=fit, max_failures=0, checkpoint_epochs=None)
        )
        found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert set(found) == {2}


def test_it_leaves_in_an_epoch_that_a_retry_trains_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch was reported before: the trial has not ended, and its checkpoint is of no later epoch."""
    monkeypatch.setenv("RAISES_ONCE", str(tmp_path / "raised"))
    data: Any = Data(prepare_small(stepwise, stepwise.Params(), tmp_path / "prepared"))
    fit = FitConfig(max_epochs=4, metric="val_loss", mode="min")
    job = Job(
        trainables={"net": described("tests.faulty.stepwise", "net")},
        storage=Folder(tmp_path),
        fit=fit,
        max_failures=1,
        checkpoint_epochs=None,
        prepared={("net", ()): data},
    )
    runner = TrialRunner(job)
    runner.begin({"number": 0, "trainable": "net", "params": {}, "fixed": {}, "seed": 0})
    leave_request.listen()
    assert [epoch_of(runner.step()) for _ in range(2)] == [1, 2]
    assert runner.step().end == Left("epoch 1, batch 1 of 50")
    runner.save()
    (checkpoint,) = checkpoint_store.all_of(checkpoint_store.folder_of(tmp_path, 0))
    assert checkpoint_store.epoch_of(checkpoint) == 0
    runner.end()


@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), 15)", "sys.exit()"])
def test_a_program_that_sigterm_ends_together_with_its_trial_has_not_failed_or_finished(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a PC is shut down."""
    enter(tmp_path, monkeypatch)
    (tmp_path / "train.py").write_text(
        f"import os, sys\nprint('acc=1', flush=True)\nos.kill({os.getpid()}, 15)\n{ends}\n"
    )
    trainable = CommandTrainable.find(f"command:{sys.executable} train.py --lr {{lr}}")
    job = Job(
        trainables={"it": trainable.description},
        storage=Folder(tmp_path),
        fit=FitConfig(max_epochs=4, metric="acc", mode="max"),
        max_failures=0,
        checkpoint_epochs=None,
    )
    runner = TrialRunner(job)
    runner.begin({"number": 0, "trainable": "it", "params": {"lr": 1}, "fixed": {}, "seed": 0})
    leave_request.listen()
    first, *_ = messages = [runner.step(), runner.step()]
    assert epoch_of(first) == 1
    assert [message.failures for message in messages] == [0, 0]
    assert messages[-1].end == Left("")
    runner.end()


@pytest.mark.parametrize(
    ("epochs", "goes_on", "trained_again"),
    [
        (0, "starts again from epoch 1", [1]),
        (1, "starts again from epoch 1", [1, 2]),
        (2, "resumes after epoch 1", [2, 3]),
    ],
)
def test_a_position_that_another_micro_batch_can_not_continue_is_left_for_the_checkpoint_before(
    epochs: int, goes_on: str, trained_again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was left inside an epoch, and ran out of memory when it went on."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    job = Job(
        trainables={"net": described("tests.faulty.positioned", "net")},
        storage=Folder(tmp_path),
        fit=FitConfig(max_epochs=4, metric="val_loss", mode="min", precision="32"),
        max_failures=0,
        checkpoint_epochs=1,
    )
    config = {"number": 0, "trainable": "net", "params": {}, "fixed": {}, "seed": 0}
    runner = TrialRunner(job)
    runner.begin(config)
    leave_request.listen()
    for epoch in range(1, epochs + 1):
        assert epoch_of(runner.step()) == epoch
        runner.save()
    os.kill(os.getpid(), leave_request.SIGNAL)
    assert runner.step().end == Left(f"epoch {epochs + 1}, batch 1 of 4")
    runner.save()

    runner.begin({**config, "micro_batch": 8})
    (tmp_path / "steps").unlink()
    if epochs:
        assert epoch_of(runner.step()) == epochs, "it reports its last epoch again"
    first = message = runner.step()
    while epoch_of(message) <= epochs:  # it is trained again
        message = runner.step()
    (notice,) = first.notices
    assert (epoch_of(message), message.failures) == (epochs + 1, 0)
    assert notice == (
        "the last checkpoint is inside an epoch, where the loader of the data can't continue with another "
        f"micro-batch: the trial {goes_on}"
    )
    lines = Counter(int(line.split()[1]) for line in (tmp_path / "steps").read_text().splitlines())
    assert lines == dict.fromkeys(trained_again, 7), "54 rows, 8 at once"
    runner.end()


@pytest.mark.parametrize("max_failures", [0, 1])
def test_a_gpu_that_computes_no_more_hides_no_reason_and_ends_the_process_of_the_next_trial(
    max_failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kernel's error, which each later call of CUDA repeats. There is no GPU here."""

    def fails() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    def ends(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    monkeypatch.setattr(os, "_exit", ends)
    job = Job(
        trainables={"toy": described("tests.faulty.toy", "toy")},
        storage=Folder(tmp_path),
        fit=FitConfig(max_epochs=4, metric="score", mode="max"),
        max_failures=max_failures,
        checkpoint_epochs=None,
    )
    runner = TrialRunner(job)
    config = {"number": 0, "trainable": "toy", "params": {"fault": "raises"}, "fixed": {}, "seed": 0}
    runner.begin(config)
    assert epoch_of(runner.step()) == 1
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", fails)
    message = runner.step()
    assert message.failures == 1
    if max_failures:
        assert message.end == Left(""), "it goes on, and not in this process"
        (why,) = message.notices
    else:
        assert isinstance(message.end, Failed)
        why = message.end.reason
    assert why.startswith("RuntimeError: ")
    assert "device-side" not in why
    with pytest.raises(SystemExit, match=str(LOST)):
        runner.begin({**config, "number": 1})


def test_epochs_that_a_retry_trains_again_are_reported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial that reported nothing for so long would be taken to hang."""
    monkeypatch.setenv("TOY_ATTEMPTS", str(tmp_path))
    job = Job(
        trainables={"net": described("tests.faulty.toy", "net")},
        storage=Folder(tmp_path),
        fit=FitConfig(max_epochs=3, metric="score", mode="max"),
        max_failures=1,
        checkpoint_epochs=10,
    )
    runner = TrialRunner(job)
    runner.begin({"number": 0, "trainable": "net", "params": {"fault": "flaky"}, "fixed": {}, "seed": 0})
    messages = [runner.step() for _ in range(4)]
    assert [(epoch_of(each), each.failures) for each in messages] == [(1, 0), (1, 1), (2, 1), (3, 1)]
    runner.end()


MOVES = """
import os
METRIC, MODE = "is_there", "max"
SPACE = {"x": None}

def train(params, trial):
    is_there = os.path.exists("moves.py")
    os.chdir("/")
    trial.report({"is_there": is_there})
"""


@pytest.mark.parametrize("goes_at_import", [False, True])
def test_each_trial_begins_in_the_folder_that_its_import_left(
    goes_at_import: bool, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes = "os.chdir(os.path.dirname(__file__))\n" if goes_at_import else ""
    (package / "moves.py").write_text(MOVES + goes)
    monkeypatch.chdir(package.parent if goes_at_import else package)
    job = Job(
        trainables={"moves": Description("function", "moves", f"{package.name}.moves")},
        storage=Folder(package.parent),
        fit=FitConfig(max_epochs=1, metric="is_there", mode="max"),
        max_failures=0,
        checkpoint_epochs=None,
    )
    runner = TrialRunner(job)
    for number in range(2):
        runner.begin({"number": number, "trainable": "moves", "params": {}, "fixed": {"x": 1}, "seed": 0})
        report = runner.step().report
        assert report is not None
        assert report.score == 1
    runner.end()


COUNTED = """
from pathlib import Path
with Path(__file__).with_suffix(".count").open("a") as file:
    file.write(".")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules of a project; the settings of PyTorch are as before afterwards."""
    before = torch_state.Settings()
    folder = tmp_path / f"of_{tmp_path.name}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    before.restore()


def loader(package: Path) -> Callable[[str], LightningTrainable]:
    """Loads a trainable of the package as a process of trials does."""
    names = [file.stem for file in package.glob("[!_]*.py")]
    trainables = {name: described(f"{package.name}.{name}") for name in names}
    fit = FitConfig(max_epochs=1, metric="val_loss", mode="min")
    storage = Folder(package.parent)
    return TrialRunner(
        Job(trainables=trainables, storage=storage, fit=fit, max_failures=0, checkpoint_epochs=None)
    )._trainable


def test_a_trainable_is_imported_once_and_has_the_settings_of_its_own_import(package: Path) -> None:
    double = f"{TRAINABLE}{COUNTED}import torch\ntorch.set_default_dtype(torch.float64)\n"
    (package / "double.py").write_text(double)
    (package / "plain.py").write_text(TRAINABLE + COUNTED)
    (package / "broken.py").write_text("1 / 0\n")
    load, before = loader(package), torch.get_default_dtype()
    assert not list(package.glob("*.count")), "it is imported when it is asked for"
    with pytest.raises(ZeroDivisionError):
        load("broken")
    for name, dtype in (("double", torch.float64), ("plain", before)) * 2:
        load(name)
        assert torch.get_default_dtype() == dtype
        torch.set_default_dtype(torch.float16)  # as a trial may leave it
    assert {file.read_text() for file in package.glob("*.count")} == {"."}


def test_what_an_import_draws_is_the_same_in_each_process(package: Path) -> None:
    lines = (
        "import random, numpy, torch\nDRAWN = random.random(), numpy.random.rand(), float(torch.rand(()))\n"
        "def describe_data(params): return DRAWN\n"
    )
    for name in ("here", "there"):
        (package / f"{name}.py").write_text(TRAINABLE + lines)
    here = loader(package)("here").describe_data(None)
    torch.manual_seed(7)
    random.seed(7)
    assert loader(package)("there").describe_data(None) == here
