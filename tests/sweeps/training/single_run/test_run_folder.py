"""What a single run leaves on a disk that fills up, after a power cut, and when it is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import yaml

from sweeps import fit
from sweeps.training.checkpoints import checkpoint_store, trained_model
from sweeps.training.single_run.run_folder import RunFolder
from tests.conftest import ROOT, fill_up

# digits_mlp, in whose way others write: when epoch $FILLS_IN begins, the disk is full to the last byte.
# Somebody presses Ctrl-C in epoch $STOPS_IN.
CROWDED = """
import os
from pathlib import Path
from tests.conftest import fill_up
from trainables import digits_mlp
from trainables.digits_mlp import METRIC, MODE, Params, build_data

def build_model(params):
    model = digits_mlp.build_model(params)

    def fill():
        if model.current_epoch + 1 == int(os.environ.get("STOPS_IN", 0)):
            raise KeyboardInterrupt
        if model.current_epoch + 1 == int(os.environ["FILLS_IN"]) and model.global_rank == 0:
            fill_up(Path(os.environ["DISK"]))

    model.on_train_epoch_start = fill
    return model
"""
# digits_mlp, which ends by itself behind epoch 2.
EARLY = """
from lightning.pytorch.callbacks import EarlyStopping
from trainables.digits_mlp import METRIC, MODE, Params, build_data, build_model

def trainer_options(params):
    return {"callbacks": [EarlyStopping(METRIC, mode=MODE, patience=1, min_delta=1.0)]}
"""
# digits_mlp, one of whose metrics is no number.
NO_NUMBER = """
from trainables import digits_mlp
from trainables.digits_mlp import METRIC, MODE, Params, build_data

def build_model(params):
    model = digits_mlp.build_model(params)
    model.on_validation_epoch_start = lambda: model.log("far", float("nan"))
    return model
"""
KB = 1000
HIDDEN = 800
"""Units: the weights are 240 kB, and a checkpoint three times as large."""


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def crowded(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk, and where the model is that finds it full."""
    (tmp_path / "crowded.py").write_text(CROWDED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("DISK", str(small_disk))
    yield small_disk
    sys.modules.pop("crowded", None)


def run(disk: Path, what: str = "digits_mlp", *flags: str) -> int:
    where = ("--results-dir", str(disk), "--name", "it", "--threads", "1")
    return fit.main([what, "--hidden", str(HIDDEN), "--max-epochs", "3", *where, *flags])


def epochs(disk: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in (disk / "it/epochs.jsonl").read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_that_has_no_room_is_left_out(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_up(small_disk, leave=400 * KB)
    assert run(small_disk, "digits_mlp", "--checkpoint-epochs", "1") == 0
    printed = capsys.readouterr().out
    assert "Notice     no checkpoint of epoch 1: the disk is full" in printed
    assert "Notice     no checkpoint of epoch 2: the disk is full" in printed
    assert epochs(small_disk) == [1, 2, 3]
    assert names(small_disk / "it") == ["best", "epochs.jsonl", "fit.yaml"]


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2"])
def test_a_checkpoint_of_several_workers_that_has_no_room_is_left_out(
    small_disk: Path, strategy: str
) -> None:
    fill_up(small_disk, leave=400 * KB)
    how = ("--strategy", strategy, "--devices", "2", "--batch-size", "32", "--threads", "1")
    where = (
        "--results-dir",
        str(small_disk),
        "--name",
        "it",
        "--checkpoint-epochs",
        "1",
        "--max-epochs",
        "3",
    )
    command = [sys.executable, "-m", "sweeps.fit", "digits_mlp", "--hidden", str(HIDDEN), *how, *where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Notice     no checkpoint of epoch 1: the disk is full") == 1
    assert epochs(small_disk) == [1, 2, 3]
    assert names(small_disk / "it") == ["best", "epochs.jsonl", "fit.yaml"]


def test_weights_that_have_no_room_end_the_run_in_order_and_it_goes_on(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = fill_up(small_disk, leave=100 * KB)
    assert run(small_disk) == 1
    errors = capsys.readouterr().err
    assert f"error: {small_disk / 'it'}: the disk is full: " in errors
    assert (
        " kB left, and no room for the weights of epoch 3 (240 kB). Free some space; the run starts "
        in errors
    )
    assert f"sweeps fit --resume {small_disk / 'it'}\n" in errors
    assert names(small_disk / "it") == ["epochs.jsonl", "fit.yaml"], "nothing half is left"
    others.unlink()
    assert fit.main(["--resume", str(small_disk / "it")]) == 0
    assert (small_disk / "it/best/weights.pt").is_file()


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2"])
def test_several_workers_end_together_where_an_epoch_can_not_be_written_down(
    crowded: Path, tmp_path: Path, strategy: str
) -> None:
    how = ("--strategy", strategy, "--devices", "2", "--batch-size", "32", "--threads", "1")
    where = ("--results-dir", str(crowded), "--name", "it", "--max-epochs", "3")
    command = [sys.executable, "-m", "sweeps.fit", "crowded", *how, *where]
    environment = {**os.environ, "FILLS_IN": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("no room for the line of epoch 1") == 1
    assert "Traceback" not in done.stderr


def test_an_epoch_that_can_not_be_written_down_ends_the_run_in_order(
    crowded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FILLS_IN", "1")
    assert run(crowded, "crowded") == 1
    assert re.search(r"0 B left, and no room for the line of epoch 1 \(\d+ B\)", capsys.readouterr().err)
    assert epochs(crowded) == [], "none is half"
    assert fit.main(["--resume", str(crowded / "it")]) == 1, "it is still full"
    (crowded / "others").unlink()
    monkeypatch.setenv("FILLS_IN", "0")
    assert fit.main(["--resume", str(crowded / "it")]) == 0
    assert epochs(crowded) == [1, 2, 3]


def test_a_run_that_has_ended_by_itself_trains_no_further_epoch_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "early.py").write_text(EARLY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(RunFolder, "keep_best", stopped)
        assert run(tmp_path, "early", "--checkpoint-epochs", "1") == 130
    assert epochs(tmp_path) == [1, 2]
    assert fit.main(["--resume", str(tmp_path / "it")]) == 0
    assert epochs(tmp_path) == [1, 2]
    assert (tmp_path / "it/best/weights.pt").is_file()
    sys.modules.pop("early", None)


HOLDS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_that_another_process_trains_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    another = [sys.executable, "-c", HOLDS, str(tmp_path / "it/fit.yaml")]
    ended: list[int] = []

    def stopped(*_: object) -> None:
        ended.append(subprocess.run(another, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode)
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(RunFolder, "keep_best", stopped)
        assert run(tmp_path) == 130
    assert ended == [1], "this process holds it"
    with subprocess.Popen(another, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert fit.main(["--resume", str(tmp_path / "it")]) == 2
        process.communicate()
    assert ": another process trains this run now" in capsys.readouterr().err
    assert epochs(tmp_path) == [1, 2, 3]
    assert fit.main(["--resume", str(tmp_path / "it")]) == 0


def test_a_run_that_is_stopped_in_its_test_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trained_model, "score_test_rows", stopped)
    assert run(tmp_path, "digits_mlp", "--test") == 130
    said = capsys.readouterr().out
    assert said.endswith(
        f"\nStopped    the run has finished, without its test\nWeights    {tmp_path}/it/best\n"
    )


def test_the_best_weights_are_on_the_disk_before_the_checkpoints_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, synced = tmp_path / "it", []

    def sync(descriptor: int, fsync: Callable[[int], None] = os.fsync) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        has_checkpoint = bool(checkpoint_store.all_of(checkpoint_store.folder_of(folder, 0)))
        synced.append((path, (folder / "best").exists(), has_checkpoint))

    monkeypatch.setattr(os, "fsync", sync)
    assert run(tmp_path, "digits_mlp", "--checkpoint-epochs", "1") == 0
    part = folder / ".best.part"
    content = synced.index((part / "weights.pt", False, True))
    assert content < synced.index((part, False, True)) < synced.index((folder, True, True))
    assert not (folder / "checkpoints").exists()


def test_a_metric_that_is_not_finite_is_null_in_the_line_of_its_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON has no number for it: readers other than Python's refuse the line."""
    (tmp_path / "no_number.py").write_text(NO_NUMBER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    assert run(tmp_path, "no_number", "--max-epochs", "1") == 0
    assert json.loads((tmp_path / "it/epochs.jsonl").read_text())["far"] is None


def test_the_line_of_an_epoch_is_on_the_disk_before_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a resume after a power cut knows neither its score nor that of the best one before."""
    folder, synced = tmp_path / "it", []

    def sync(descriptor: int, fsync: Callable[[int], None] = os.fsync) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        lines = len(epochs(tmp_path)) if path.name == "epochs.jsonl" else 0
        synced.append((path.name, lines))

    monkeypatch.setattr(os, "fsync", sync)
    assert run(tmp_path, "digits_mlp", "--checkpoint-epochs", "1") == 0
    checkpoints = [name for name, _ in synced if name.startswith(".epoch_")]
    assert len(checkpoints) == 2
    for epoch, name in enumerate(checkpoints, 1):
        assert synced.index(("epochs.jsonl", epoch)) < synced.index((name, 0))
    assert (folder / "best").exists()


def test_a_run_without_a_finite_score_says_so_and_has_nothing_to_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "digits_mlp", "--lr", "1e30", "--metric", "val_loss", "--mode", "min", "--test") == 1
    said = capsys.readouterr()
    assert "\nNo epoch had a finite val_loss.\n" in said.out
    assert "Traceback" not in said.err


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sharing = ("--devices", "2", "--strategy", "ddp", "--batch-size")
    assert run(tmp_path, "digits_mlp", *sharing, "33") == 2
    assert "error: batch_size 33: 2 workers share it" in capsys.readouterr().err
    assert names(tmp_path) == []


def test_a_run_whose_metric_is_never_logged_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "digits_mlp", "--metric", "val_ac") == 2
    assert "Did you mean 'val_acc'?" in capsys.readouterr().err
    assert names(tmp_path) == []
    assert run(tmp_path) == 0
    assert yaml.safe_load((tmp_path / "it/fit.yaml").read_text())["metric"] is None
