"""Checkpoints on disk: never half under their name, checked before use, and no more than are needed."""

from __future__ import annotations

import contextlib
import errno
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.common import atomic_io
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.checkpoints.checkpoint_store import KEPT, MANIFEST
from tests.conftest import ROOT


def fill(text: str = "weights") -> Callable[[Path], None]:
    """Files as a trial writes them, one in a folder of its own."""

    def write(folder: Path) -> None:
        (folder / "weights.pt").write_text(text)
        (folder / "shards").mkdir()
        (folder / "shards" / "0.bin").write_bytes(bytes(range(256)) * 64)

    return write


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """Where the checkpoints of trial 3 of a sweep are."""
    return checkpoint_store.folder_of(tmp_path, 3)


def written(trial: Path, *epochs: int) -> list[Path]:
    return [checkpoint_store.write(trial, epoch, fill(f"weights of epoch {epoch}")) for epoch in epochs]


def names(folder: Path) -> list[str]:
    """All that is there, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_holds_what_was_filled_in_under_the_name_of_its_epoch(
    trial: Path, tmp_path: Path
) -> None:
    (checkpoint,) = written(trial, 9)
    assert checkpoint == tmp_path / "checkpoints" / "trial_0003" / "epoch_0009"
    assert (checkpoint / "weights.pt").read_text() == "weights of epoch 9"
    assert names(trial) == ["epoch_0009"]
    assert checkpoint_store.epoch_of(checkpoint) == 9
    assert checkpoint_store.fault(checkpoint) is None
    assert checkpoint_store.newest(trial) == (checkpoint, [])


def test_the_manifest_covers_every_file_in_sub_folders_too(trial: Path) -> None:
    (checkpoint,) = written(trial, 1)
    manifest = json.loads((checkpoint / MANIFEST).read_text())["files"]
    assert sorted(manifest) == ["shards/0.bin", "weights.pt"]
    assert [size for size, _ in manifest.values()] == [256 * 64, len("weights of epoch 1")]


def test_a_name_appears_only_when_its_checkpoint_is_whole(trial: Path) -> None:
    seen: list[list[str]] = []

    def look(folder: Path) -> None:
        fill()(folder)
        seen.append([path.name for path in checkpoint_store.all_of(trial)])

    written(trial, 1)
    checkpoint_store.write(trial, 2, look)
    assert seen == [["epoch_0001"]]


def test_a_checkpoint_of_a_trial_with_other_params_is_not_used(trial: Path) -> None:
    mine, other = {"lr": 0.1, "width": 8}, {"lr": 0.2, "width": 8}
    one = checkpoint_store.write(trial, 1, fill(), mine)
    checkpoint_store.write(trial, 2, fill(), other)
    found, (reason,) = checkpoint_store.newest(trial, mine)
    assert found == one
    assert reason == "the checkpoint of epoch 2 is damaged (it belongs to a trial with other params)"


def test_a_broken_one_does_not_take_the_place_of_one_to_fall_back_to(trial: Path) -> None:
    five, nine = written(trial, 5, 9)
    (nine / "weights.pt").write_text("broken")
    assert checkpoint_store.newest(trial)[0] == five
    (six,) = written(trial, 6)  # the trial went on from 5
    assert checkpoint_store.all_of(trial) == [six, five]


def test_a_process_that_was_given_up_may_write_the_same_at_the_same_time(trial: Path) -> None:
    def as_another_does(folder: Path) -> None:
        fill()(folder)
        (trial / "epoch_0002").mkdir()
        (trial / "epoch_0002" / "weights.pt").write_text("weights")

    (one,) = written(trial, 1)
    checkpoint_store.write(trial, 2, as_another_does)
    assert names(trial) == ["epoch_0001", "epoch_0002"]
    assert checkpoint_store.fault(one) is None


@pytest.mark.parametrize("error", [RuntimeError("no"), OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_write_that_raises_leaves_nothing_and_the_one_before_it(trial: Path, error: BaseException) -> None:
    def break_off(folder: Path) -> None:
        fill()(folder)
        raise error

    (before,) = written(trial, 1)
    with pytest.raises(type(error)):
        checkpoint_store.write(trial, 2, break_off)
    assert names(trial) == ["epoch_0001"]
    assert checkpoint_store.newest(trial) == (before, [])


KILLED = """
import os, signal, sys
from pathlib import Path
from sweeps.training.checkpoints import checkpoint_store as checkpoints

def fill(folder):
    (folder / "weights.pt").write_bytes(bytes(4096))
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)

trial = checkpoints.folder_of(Path(sys.argv[1]), 3)
checkpoints.write(trial, 5, fill)
"""


def test_a_process_that_is_killed_in_the_middle_leaves_no_checkpoint_and_is_tidied_up_after(
    trial: Path, tmp_path: Path
) -> None:
    (before,) = written(trial, 4)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "killed"], cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    (left,) = set(names(trial)) - {"epoch_0004"}
    assert left.startswith("."), "hidden: no program takes it for a checkpoint"
    assert (trial / left / "weights.pt").exists()
    assert checkpoint_store.all_of(trial) == [before]
    assert checkpoint_store.newest(trial) == (before, [])
    checkpoint_store.tidy(tmp_path)
    assert names(trial) == ["epoch_0004"]
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "lives"], cwd=ROOT).returncode == 0
    assert names(trial) == ["epoch_0004", "epoch_0005"]


KILLED_BEFORE_EACH = """
import os, signal, sys
from pathlib import Path
from sweeps.training.checkpoints import checkpoint_store as checkpoints

trial, epoch = Path(sys.argv[1]), int(sys.argv[2])

def fill(folder):
    (folder / "weights.pt").write_text("new")

def kill_before(operation):
    done = iter(range(operation))
    def each(event, arguments):
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir") and next(done, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(each)

folder, operation = trial, 0
while True:
    operation += 1
    copy = trial.with_name(f"{trial.name}_{operation}")
    checkpoints.shutil.copytree(trial, copy)
    if (child := os.fork()) == 0:
        kill_before(operation)
        checkpoints.write(copy, epoch, fill)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(operation)
        break
"""


@pytest.mark.parametrize("before", [[0], [1, 2], [2, 3]])
def test_whenever_a_process_is_killed_there_is_the_checkpoint_before_or_the_new_one(
    before: list[int], trial: Path
) -> None:
    """It is killed before each of its operations on files: a position inside an epoch is written under the
    last epoch that ended, which has a checkpoint already."""
    written(trial, *before)
    epoch = before[0] if before == [0] else 2
    command = [sys.executable, "-c", KILLED_BEFORE_EACH, str(trial), str(epoch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operations, found = int(done.stdout), []
    for operation in range(1, operations + 1):
        copy = trial.with_name(f"{trial.name}_{operation}")
        newest, faults = checkpoint_store.newest(copy)
        assert newest is not None, f"killed before operation {operation}"
        assert faults == []
        found.append((newest / "weights.pt").read_text())
        checkpoint_store.tidy(trial.parents[1])
        newer = checkpoint_store.write(copy, epoch, fill("newer"))
        assert checkpoint_store.newest(copy) == (newer, [])
        assert len(checkpoint_store.all_of(copy)) == len([each for each in before if each <= epoch])
    assert operations > 10
    old = f"weights of epoch {before[-1]}"
    assert found == sorted(found, key=[old, "new"].index)
    assert {old, "new"} == set(found)


def _truncate(checkpoint: Path) -> None:
    with (checkpoint / "weights.pt").open("r+b") as file:
        file.truncate(5)


def _flip_a_bit(checkpoint: Path) -> None:
    path = checkpoint / "shards" / "0.bin"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)


def _empty(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return write


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (_truncate, "weights.pt has changed since it was written"),
    "a bit flipped": (_flip_a_bit, "shards/0.bin has changed since it was written"),
    "a file missing": (lambda path: (path / "weights.pt").unlink(), "weights.pt is missing"),
    "a folder missing": (lambda path: shutil.rmtree(path / "shards"), "0.bin is missing"),
    "no manifest": (lambda path: (path / MANIFEST).unlink(), "manifest.json is missing"),
    "an empty folder": (_empty, "manifest.json is missing"),
    "garbage": (_write(MANIFEST, b"\x00\xff{"), "it can't be read"),
    "half a manifest": (_write(MANIFEST, b'{"weights.pt": [1'), "can't be"),
    "an empty manifest": (_write(MANIFEST, b""), "it can't be read"),
    "another manifest": (_write(MANIFEST, b"[1]"), "it can't be read"),
    "no folder": (shutil.rmtree, "manifest.json is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_known_and_named(damage: str, trial: Path) -> None:
    (checkpoint,) = written(trial, 7)
    damaged, expected = DAMAGES[damage]
    damaged(checkpoint)
    found = checkpoint_store.fault(checkpoint)
    assert found is not None
    assert expected in found


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "no folder"])
def test_the_one_before_stands_in_for_a_damaged_one_which_is_named(damage: str, trial: Path) -> None:
    before, damaged = written(trial, 6, 7)
    DAMAGES[damage][0](damaged)
    found, faults = checkpoint_store.newest(trial)
    assert found == before
    (fault,) = faults
    assert fault.startswith("the checkpoint of epoch 7 is damaged (")
    assert DAMAGES[damage][1] in fault


def test_where_all_are_damaged_there_is_none_and_each_is_named(trial: Path) -> None:
    for checkpoint in written(trial, 6, 7):
        _truncate(checkpoint)
    found, faults = checkpoint_store.newest(trial)
    assert found is None
    assert [fault.split(" is ")[0] for fault in faults] == [
        "the checkpoint of epoch 7",
        "the checkpoint of epoch 6",
    ]


def test_a_trial_without_checkpoints_has_none(trial: Path) -> None:
    assert checkpoint_store.all_of(trial) == []
    assert checkpoint_store.newest(trial) == (None, [])


def test_they_are_ordered_by_epoch_not_by_name(trial: Path) -> None:
    written(trial, 9_999, 10_000)
    assert [checkpoint_store.epoch_of(path) for path in checkpoint_store.all_of(trial)] == [10_000, 9_999]
    assert checkpoint_store.newest(trial)[0] == trial / "epoch_10000"


def test_a_trial_keeps_its_newest_and_one_to_fall_back_to(trial: Path) -> None:
    written(trial, 1, 2, 3, 4)
    assert KEPT == 2
    assert names(trial) == ["epoch_0003", "epoch_0004"]


def test_an_epoch_that_is_written_again_replaces_it(trial: Path) -> None:
    written(trial, 1, 2)
    again = checkpoint_store.write(trial, 2, _write("other.pt", b"2nd"))
    assert names(again) == [MANIFEST, "other.pt"]
    assert checkpoint_store.fault(again) is None
    assert names(trial) == ["epoch_0001", again.name]
    assert checkpoint_store.all_of(trial) == [again, trial / "epoch_0001"]
    assert checkpoint_store.epoch_of(again) == 2


def test_a_damaged_one_that_is_trained_again_is_whole_again(trial: Path) -> None:
    _, damaged = written(trial, 1, 2)
    _truncate(damaged)
    (again,) = written(trial, 2)
    assert checkpoint_store.newest(trial) == (again, [])


def test_removing_takes_the_name_away_before_any_file(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is killed in the middle leaves no half checkpoint under its name."""
    (checkpoint,) = written(trial, 1)
    seen: list[bool] = []
    really = shutil.rmtree

    def rmtree(path: Path, **options: bool) -> None:
        if Path(path).exists():
            seen.append(checkpoint.exists())
        really(path, **options)

    monkeypatch.setattr(checkpoint_store.shutil, "rmtree", rmtree)
    checkpoint_store.remove(checkpoint)
    assert seen == [False]
    assert names(trial) == []


def test_removing_a_whole_trial_and_what_is_not_there(trial: Path, tmp_path: Path) -> None:
    written(trial, 1, 2)
    checkpoint_store.remove(trial)
    checkpoint_store.remove(trial)
    checkpoint_store.remove(trial / "epoch_0001")
    assert names(tmp_path / "checkpoints") == []


def test_tidying_removes_what_the_killed_have_left_and_no_checkpoint(trial: Path, tmp_path: Path) -> None:
    written(trial, 1, 2)
    for left in (
        trial / ".epoch_0003.pc1.17",
        trial / ".epoch_0001.gone",
        trial.parent / ".trial_0002.gone" / "epoch_0001",
    ):
        left.mkdir(parents=True)
        (left / "weights.pt").write_text("half")
    checkpoint_store.tidy(tmp_path)
    assert names(trial) == ["epoch_0001", "epoch_0002"]
    assert names(trial.parent) == ["trial_0003"]


def test_tidying_a_sweep_without_checkpoints_does_nothing(tmp_path: Path) -> None:
    checkpoint_store.tidy(tmp_path)
    assert names(tmp_path) == []


def test_a_pc_that_does_not_see_the_folder_of_the_sweep_says_so(tmp_path: Path) -> None:
    trial = checkpoint_store.folder_of(tmp_path / "elsewhere", 3)
    with pytest.raises(
        FileNotFoundError, match=r"elsewhere is not there on .*: all PCs must see that folder"
    ):
        checkpoint_store.write(trial, 1, fill())
    assert names(tmp_path) == [], "not made anew: the driver would never see it"


Usage = namedtuple("Usage", "total used free")


def raised_from(cause: BaseException | None, hidden: BaseException | None = None) -> BaseException:
    """As PyTorch does it: an error of its own, whose cause or context is the system's."""
    error = RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")
    error.__cause__, error.__context__ = cause, hidden
    return error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_from_the_error_and_from_what_caused_it(number: int, tmp_path: Path) -> None:
    full = OSError(number, "full")
    assert atomic_io.disk_is_full(full, tmp_path)
    assert atomic_io.disk_is_full(raised_from(full), tmp_path)
    assert atomic_io.disk_is_full(raised_from(None, full), tmp_path)
    assert atomic_io.disk_is_full(raised_from(raised_from(None, full)), tmp_path)


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), RuntimeError("no"), raised_from(KeyError())])
def test_other_errors_are_the_disks_fault_only_when_nothing_is_free(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 2**40
    monkeypatch.setattr(checkpoint_store.shutil, "disk_usage", lambda path: Usage(2**41, 0, free))
    assert not atomic_io.disk_is_full(error, tmp_path / "not" / "there")
    free = 2**20
    assert atomic_io.disk_is_full(error, tmp_path / "not" / "there")


@pytest.mark.slow
def test_a_share_that_is_lost_while_a_checkpoint_is_written_is_not_replaced(tmp_path: Path) -> None:
    sweep, elsewhere, chance = tmp_path / "sweep", tmp_path / "elsewhere", random.Random(0)
    sweep.mkdir()
    for _ in range(300):
        lost = threading.Timer(chance.uniform(0, 0.002), sweep.rename, [elsewhere])
        lost.start()
        with contextlib.suppress(FileNotFoundError):  # of a write that comes too late
            checkpoint_store.write(checkpoint_store.folder_of(sweep, 3), 1, fill())
        lost.join()
        assert not sweep.exists(), "or the epochs that follow would be written where no other PC sees them"
        elsewhere.rename(sweep)


def test_a_folder_of_checkpoints_whose_place_is_lost_is_told(tmp_path: Path) -> None:
    """Its name is there still, as it is for a moment when a share is lost just then."""
    (tmp_path / checkpoint_store.FOLDER).symlink_to(tmp_path / "lost")
    with pytest.raises(FileNotFoundError, match=r"is not there on .*: all PCs must see that folder"):
        checkpoint_store.write(checkpoint_store.folder_of(tmp_path, 3), 1, fill())
