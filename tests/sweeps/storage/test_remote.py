"""Checkpoints behind a network, against a real sshd and a real S3 server: whole or not there, found from any
PC, and a server that refuses, fills up or goes away."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sweeps.storage.open import backend_of, open_storage
from sweeps.storage.protocol import Storage, StorageError
from sweeps.storage.remote import Remote, copy_to_server
from tests.conftest import ROOT, fill_up
from tests.support.servers import SSHServer, s3_server
from tests.sweeps.storage.far import sftp

MINE, OTHER = {"lr": 0.1, "width": 8}, {"lr": 0.2, "width": 8}
MB = 10**6
ONE, BEFORE = ["epoch_0001.tar"], ["epoch_0001.tar", "epoch_0002.tar"]


def fill(size: int = 3 * MB) -> Callable[[Path], None]:
    """Files as a trial writes them, one in a folder of its own."""

    def write(folder: Path) -> None:
        (folder / "weights.pt").write_bytes(os.urandom(size))
        (folder / "shards").mkdir()
        (folder / "shards" / "0.bin").write_bytes(b"shard")

    return write


@pytest.fixture(params=["sftp", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a storage of each kind."""
    if request.param == "sftp":
        yield request.getfixturevalue("server").url
        return
    with s3_server(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server.url


@pytest.fixture
def store(url: str) -> Storage:
    """The place of one sweep in it."""
    found = open_storage(url, Path("results/NAME"))
    found.make()
    return found


def left_in(server: SSHServer, number: int = 3) -> list[str]:
    return sorted(path.name for path in (server.root / "NAME" / f"trial_{number:04d}").iterdir())


def test_a_checkpoint_is_found_from_another_pc_as_it_was_written(store: Storage) -> None:
    size = store.write(3, 9, fill(), MINE)
    elsewhere: Storage = pickle.loads(pickle.dumps(store))
    found, faults = elsewhere.newest(3, MINE)
    assert found is not None
    assert not faults
    assert found.name == "epoch_0009"
    assert 3 * MB < size < 3 * MB + 20_000, "of the one file there"
    assert (found / "weights.pt").stat().st_size == 3 * MB
    assert (found / "shards" / "0.bin").read_bytes() == b"shard"
    assert elsewhere.epochs(3) == [9]
    assert elsewhere.newest(4, MINE) == (None, [])


def test_a_download_is_forgotten_once_it_was_read_and_can_be_fetched_again(store: Storage) -> None:
    store.forget_downloads()
    store.write(3, 9, fill(100), MINE)
    found, _ = store.newest(3, MINE)
    assert found is not None
    store.forget_downloads()
    assert not list(found.parent.iterdir())
    assert store.newest(3, MINE) == (found, [])


def test_the_two_newest_stay_and_those_behind_a_broken_one_go(store: Storage) -> None:
    for epoch in (1, 2, 3, 7):
        store.write(3, epoch, fill(100), MINE)
    assert store.epochs(3) == [7, 3]
    store.write(3, 5, fill(100), MINE)  # 7 was broken: the trial went on from 3
    assert store.epochs(3) == [5, 3]
    store.remove(3, 5)
    assert store.epochs(3) == [3]


@dataclass(frozen=True)
class Here:
    """A folder of this PC as a server, where something happens before a file arrives."""

    url: str
    happens: Callable[[], object] = bool

    @property
    def root(self) -> str:
        return self.url

    def open(self) -> Any:
        return fsspec.filesystem("file")

    def upload(self, fs: Any, file: Path, target: str) -> None:
        self.happens()
        fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        copy_to_server(fs, file, target)

    def diagnose(self, error: Exception, fs: Any) -> tuple[str, bool]:
        return str(error), True

    def make(self, fs: Any) -> None:
        fs.makedirs(self.root, exist_ok=True)


def test_a_pc_that_slept_in_the_middle_of_a_write_leaves_what_its_successor_has_written(
    tmp_path: Path,
) -> None:
    other = Remote(Here(str(tmp_path)), "NAME")
    other.write(3, 1, fill(100), MINE)

    def go_on() -> None:
        for epoch in (2, 3):
            other.write(3, epoch, fill(100), MINE)

    Remote(Here(str(tmp_path), go_on), "NAME").write(3, 2, fill(100), MINE)
    assert other.epochs(3) == [3, 2]


def test_trials_are_listed_and_removed(store: Storage) -> None:
    for number in (0, 12):
        store.write(number, 1, fill(100), MINE)
    assert store.numbers() == [0, 12]
    store.remove(12)
    store.remove(12)
    assert (store.numbers(), store.epochs(12)) == ([0], [])
    store.tidy()
    assert store.epochs(0) == [1]


def test_one_of_a_trial_with_other_params_is_not_used(store: Storage) -> None:
    store.write(3, 1, fill(100), MINE)
    store.write(3, 2, fill(100), OTHER)
    found, faults = store.newest(3, MINE)
    assert found is not None
    assert found.name == "epoch_0001"
    assert faults == ["the checkpoint of epoch 2 is damaged (it belongs to a trial with other params)"]


def test_what_the_users_code_raises_is_not_the_storages_fault_and_leaves_nothing(store: Storage) -> None:
    def raises(folder: Path) -> None:
        fill(100)(folder)
        raise ValueError("no pickle")

    store.write(3, 1, fill(100), MINE)
    with pytest.raises(ValueError, match="no pickle"):
        store.write(3, 2, raises, MINE)
    assert store.epochs(3) == [1]


@pytest.mark.parametrize("damage", ["cut off", "a bit", "no archive"])
def test_a_damaged_one_is_known_and_the_one_before_it_used(damage: str, server: SSHServer) -> None:
    store = sftp(server)
    for epoch in (1, 2):
        store.write(3, epoch, fill(), MINE)
    file = server.root / "NAME" / "trial_0003" / "epoch_0002.tar"
    content = bytearray(file.read_bytes())
    content[MB] ^= 1
    file.write_bytes({"cut off": content[: 2 * MB], "a bit": content, "no archive": b"PK"}[damage])
    found, (fault,) = store.newest(3, MINE)
    assert found is not None
    assert found.name == "epoch_0001"
    assert fault.startswith("the checkpoint of epoch 2 is damaged (")


def test_a_host_that_is_not_there_is_tried_again_and_then_named(server: SSHServer) -> None:
    server.stop()
    with pytest.raises(StorageError, match=r"Connect call failed.*127.0.0.1.*\(tried for"):
        sftp(server, 0.1, 0.2).epochs(3)


@pytest.mark.slow
def test_a_host_that_goes_away_in_the_middle_of_a_write_and_comes_back(
    server: SSHServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, seen, comes_back = sftp(server, 0.5, 0.5, 1, 2, 4), list[str](), threading.Timer(1, server.start)
    store.write(3, 1, fill(100), MINE)

    def is_cut(source: Any, content: Any, length: int, copy: Any = shutil.copyfileobj) -> None:
        if not seen:
            content.write(source.read(MB))
            server.stop()
            seen.extend(left_in(server))
            comes_back.start()
        copy(source, content, length)

    monkeypatch.setattr(shutil, "copyfileobj", is_cut)
    store.write(3, 2, fill(), MINE)
    comes_back.join()
    assert [name.startswith(".epoch_0002.tar.") for name in seen] == [True, False], "in the middle"
    assert left_in(server) == BEFORE
    found, faults = store.newest(3, MINE)
    assert found is not None
    assert (found.name, faults) == ("epoch_0002", [])


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [2, 1])  # 1: inside epoch 2, under the name of the one before
def test_a_process_killed_in_the_middle_of_a_write_leaves_what_tidy_removes(
    epoch: int, server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = sftp(server)
    store.write(3, 1, fill(100), MINE)
    code = (
        "import os, shutil, sys\n"
        "def copy(source, content, length):\n"
        "    content.write(source.read(length))\n"
        "    print('in the middle', flush=True)\n    sys.stdin.read()\n"
        "shutil.copyfileobj = copy\n"
        "from sweeps.storage.open import backend_of\nfrom sweeps.storage.remote import Remote\n"
        f"store = Remote(backend_of({server.url!r}), 'NAME')\n"
        "fill = lambda folder: (folder / 'weights.pt').write_bytes(os.urandom(9_000_000))\n"
        f"store.write(3, {epoch}, fill, {MINE!r})\n"
    )
    piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **piped) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "in the middle\n"
        writer.send_signal(signal.SIGKILL)
    assert any(name.startswith(f".epoch_000{epoch}.tar.") for name in left_in(server))
    assert store.epochs(3) == [1]
    found, faults = store.newest(3, MINE)
    assert found is not None
    assert (found.name, faults) == ("epoch_0001", [])
    store.tidy()
    assert left_in(server) == ONE
    sftp(server).newest(3, MINE)
    scratch = tmp_path.glob(f"sweeps-checkpoint-*/epoch_000{epoch}.tar")
    assert not list(scratch), "the dead process left it on this PC"


def test_what_another_process_removes_first_is_removed(
    server: SSHServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sftp(server)
    for epoch in (1, 2):
        store.write(3, epoch, fill(100), MINE)
    left = server.root / "NAME" / "trial_0003" / ".epoch_0003.tar.other.part"
    left.touch()
    own = store._fs.rm_file

    def remove(path: str) -> None:
        own(path)  # as the other one
        own(path)

    monkeypatch.setattr(store._fs, "rm_file", remove)
    store.tidy()
    assert left_in(server) == BEFORE
    store.write(3, 3, fill(100), MINE)
    assert store.epochs(3) == [3, 2]


def test_a_full_disk_of_the_host_is_named_and_leaves_the_one_before(
    server: SSHServer, small_disk: Path
) -> None:
    store = Remote(backend_of(f"{server.url.removesuffix(str(server.root))}{small_disk}"), "NAME", (0.1,))
    store.write(3, 1, fill(1 * MB), MINE)
    others = fill_up(small_disk)
    with pytest.raises(StorageError, match=r"the disk is full on 127.0.0.1 \(tried for"):
        store.write(3, 2, fill(1 * MB), MINE)
    assert [path.name for path in (small_disk / "NAME" / "trial_0003").iterdir()] == ["epoch_0001.tar"]
    others.unlink()
    store.write(3, 2, fill(1 * MB), MINE)
    assert store.epochs(3) == [2, 1]


def test_a_pc_without_room_to_unpack_a_checkpoint_is_at_fault_and_not_the_trial(
    server: SSHServer, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sftp(server).write(3, 1, fill(2 * MB), MINE)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(StorageError, match=r"the disk is full where checkpoints are unpacked \(\$TMPDIR\)"):
        sftp(server).newest(3, MINE)
    assert not list(small_disk.rglob("epoch_*")), "what has arrived takes no room"


@pytest.mark.parametrize("made_by", [(tempfile, "mkdtemp"), (Path, "mkdir")])
def test_a_pc_without_room_for_a_folder_is_at_fault_and_not_the_trial(
    made_by: tuple[object, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(*made_by, no_room)
    with pytest.raises(StorageError, match=r"(No space left on device|the disk is full)"):
        Remote(backend_of("sftp://host/folder"), "NAME", ()).write(3, 1, fill(100), MINE)


class Short:
    """A file system that says of every file that a part of it arrived."""

    def __init__(self, fs: Any, arrived: int) -> None:
        self.open, self._arrived = fs.open, arrived

    def info(self, target: str) -> dict[str, int]:
        return {"size": self._arrived}


def test_a_copy_has_the_content_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 20_000)
    copy_to_server(fsspec.filesystem("file"), tmp_path / "a", str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_a_copy_of_which_a_part_arrived_is_named_with_how_much(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(12_345))
    with pytest.raises(OSError, match=rf"{tmp_path}/b: 9,999 of 12,345 bytes arrived"):
        copy_to_server(Short(fsspec.filesystem("file"), 9999), tmp_path / "a", str(tmp_path / "b"))
