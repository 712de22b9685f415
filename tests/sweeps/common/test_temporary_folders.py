"""Temporary files and folders: who may remove them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.common import local_dirs
from tests.conftest import ROOT

CLAIMS = """
import sys, time
from sweeps.common import local_dirs
print(local_dirs.new_claimed_folder("sweeps-a-")[0], flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files of this process, and of those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_removed_when_its_process_was_killed_and_not_before(temporary: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", CLAIMS], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    (folder / "weights.pt").touch()
    own = local_dirs.new_claimed_folder("sweeps-a-")[0]
    assert set(temporary.iterdir()) == {folder, own}
    process.send_signal(signal.SIGKILL)
    process.communicate()
    another = local_dirs.new_claimed_folder("sweeps-a-")[0]
    assert set(temporary.iterdir()) == {own, another}


@pytest.mark.parametrize("take", [lambda folder: local_dirs.remove_left("sweeps-*"), local_dirs.claim])
def test_one_that_another_process_takes_for_a_left_one_is_made_again(
    take: Callable[[Path], object], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, list[Path]()

    def make_and_lose_the_first(prefix: str) -> str:
        made.append(Path(make(prefix=prefix)))
        if len(made) == 1:
            take(made[0])
        return str(made[-1])

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkdtemp", make_and_lose_the_first)
        folder = local_dirs.new_claimed_folder("sweeps-a-")[0]
    assert folder == made[1]
    assert folder.is_dir()


def test_a_file_is_removed_too_and_what_has_another_name_stays(temporary: Path) -> None:
    for name in ("sweeps-a", "other"):
        (temporary / name).touch()
    local_dirs.remove_left("sweeps-*")
    assert [path.name for path in temporary.iterdir()] == ["other"]


def test_what_is_young_may_be_left_alone(temporary: Path) -> None:
    for name, age_s in (("sweeps-old", 90), ("sweeps-young", 0)):
        (temporary / name).mkdir()
        os.utime(temporary / name, (time.time() - age_s,) * 2)
    local_dirs.remove_left("sweeps-*", older_than_s=60)
    assert [path.name for path in temporary.iterdir()] == ["sweeps-young"]


def test_what_can_not_be_removed_is_not_kept_locked(temporary: Path, small_disk: Path) -> None:
    local_dirs.remove_left(small_disk.name)
    assert small_disk.is_dir(), "it is mounted"
    os.close(local_dirs.claim(small_disk))
