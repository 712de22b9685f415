"""Growing memory, snapshots, and the allocator's settings."""

from __future__ import annotations

import os
import pickle
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sweeps import fit
from sweeps.common.errors import CannotTrain
from sweeps.training import torch_state
from sweeps.training.time_breakdown import GROWING_EPOCHS, WARM_UP_EPOCHS, Growth
from tests.conftest import ROOT


def notes(epochs: list[float], name: str = "memory_gb") -> list[str]:
    growth = Growth()
    return [growth.note({name: value}) for value in epochs]


def test_memory_that_grows_with_each_epoch_is_named_once_it_is_certain() -> None:
    told = notes([1.0 + 0.05 * epoch for epoch in range(10)])
    first = WARM_UP_EPOCHS + GROWING_EPOCHS
    assert told[:first] == [""] * first
    assert (
        "the memory of the process grew in each of the last 5 epochs, by 50 MB per epoch, to 1.35 GB"
        in told[first]
    )
    assert told[first + 1 :] == ["", ""]


def test_the_gpus_is_watched_too() -> None:
    assert "the memory of the GPU grew" in "".join(
        notes([0.1 * epoch for epoch in range(9)], "gpu_memory_gb")
    )


@pytest.mark.parametrize(
    "epochs",
    [
        [1.0, 2.0, 3.0, *[3.0] * 20],  # it warms up
        [1.0 + 0.1 * (epoch % 4) for epoch in range(30)],  # it comes and goes
        [1.0 + 0.0001 * epoch for epoch in range(30)],  # noise
    ],
    ids=["warm-up", "to and fro", "noise"],
)
def test_what_does_not_leak_is_not_named(epochs: list[float]) -> None:
    assert set(notes(epochs)) == {""}


def test_under_windows_the_allocator_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(platform, "release", lambda: "6.6.87.2-microsoft-standard-WSL2")
    torch_state.use_expandable_segments()
    assert "PYTORCH_ALLOC_CONF" not in os.environ


LEAKY = """
import torch
from trainables.digits_mlp import METRIC, MODE, Params, build_data, describe_data
from trainables._shared.classifier import SgdClassifier

class Leaky(SgdClassifier):
    kept = []
    def on_train_epoch_end(self):
        self.kept.append(torch.ones(8 * 2**20 // 4))

def build_model(params):
    return Leaky(torch.nn.Linear(64, 10), lr=params.lr, momentum=0.0, weight_decay=0.0)
"""


@pytest.mark.slow
def test_a_model_that_leaks_is_named_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY)
    command = [sys.executable, "-m", "sweeps.fit", "leaky", "--max-epochs", "9"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Notice     the memory of the process grew in each of the last 5 epochs" in done.stdout


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"])
def test_the_allocator_is_left_to_the_user_who_set_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "max_split_size_mb:64")
    torch_state.use_expandable_segments()
    assert [each for each in os.environ if re.fullmatch("PYTORCH_.*ALLOC_CONF", each)] == [name]
    assert os.environ[name] == "max_split_size_mb:64"


def test_the_allocator_grows_its_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """By both names: PyTorch 2.9 reads the older one, and warns of it where the newer one is not there."""
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    for name in names:
        monkeypatch.setenv(name, "")  # known to monkeypatch, so that it takes back what is set below
        monkeypatch.delenv(name)
    torch_state.use_expandable_segments()
    assert [os.environ.get(name) for name in names] == ["expandable_segments:True"] * 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_snapshot_of_a_gpu_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit.main(["digits_mlp", "--memory-snapshot", "--results-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "--memory-snapshot: it records the memory of a GPU, but there is none" in said


def test_a_run_that_is_refused_leaves_no_snapshot_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **_: None)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda file: Path(file).write_bytes(b""))
    with (
        pytest.raises(CannotTrain, match="not so"),
        torch_state.recorded_memory(tmp_path / "it/memory.pickle"),
    ):
        raise CannotTrain("not so")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_snapshot_holds_what_was_allocated(tmp_path: Path) -> None:
    file = tmp_path / "memory.pickle"
    with torch_state.recorded_memory(file):
        torch.ones(2**20, device="cuda")
    assert pickle.loads(file.read_bytes())["device_traces"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_gpus_allocator_has_heard_of_it() -> None:
    code = """
import torch
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp
from sweeps.training.config import FitConfig
config = FitConfig(max_epochs=1, metric="val_acc", mode="max")
run_through(Fit(as_trainable(digits_mlp), digits_mlp.Params(), config))
assert torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]
"""
    environment = {key: value for key, value in os.environ.items() if "ALLOC_CONF" not in key}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
