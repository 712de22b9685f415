"""A project of the user's own, run from its folder on a Ray cluster that is there already: its code, and
ours, get there by Ray."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.support import project
from tests.support.clips import Clips
from tests.support.heads import OPEN, head

INSTALLED = {"PYTHONPATH": str(ROOT), **OPEN}
"""As if this package were installed on every PC."""


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attempts")


@pytest.fixture(scope="module")
def address(attempts: Path) -> Iterator[str]:
    """A PC on which this package is installed."""
    with head({**INSTALLED, "TOY_ATTEMPTS": str(attempts)}) as started:
        yield started.address


def _sweep(
    folder: Path, address: str, *arguments: str, path: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sweeps.run", "--address", address, *arguments],
        cwd=folder,
        env={**os.environ, **INSTALLED, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_a_users_own_project_on_a_cluster(address: str, tmp_path: Path) -> None:
    done = _sweep(project.write(tmp_path), address, *project.RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"on the Ray cluster at {address}" in done.stdout
    sent = "code       my_layers.py, my_project, my_tools, sweeps: the current version is sent to every PC"
    assert sent in done.stdout.splitlines()
    assert (
        "warning    Ray requires no token: anyone who reaches its ports can run code on your PCs."
        in done.stdout
    )
    assert [trial.status for trial in Record.read(tmp_path / "results" / "mine").trials] == ["finished"] * 3


@pytest.mark.long
def test_raw_data_is_prepared_on_a_cluster_that_gets_its_code(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    clips = Clips(tmp_path)
    for name in ("a", "b"):
        clips.add(name)
    said = clips.run("--address", address)
    assert "rows       40 train" in said
    assert sorted(clips.calls()) == ["a", "b"]


@pytest.mark.long
def test_code_gets_to_a_pc_that_has_an_older_copy(attempts: Path, tmp_path: Path) -> None:
    """What all processes of the cluster see where the project and this program lie raises."""
    _skip_without_namespaces()
    home = project.write(tmp_path / "home")
    theirs = [home / "my_project", home / "my_tools"]
    ours = [ROOT / package for package in ("sweeps", "trainables", "search_spaces", "tests")]
    settings = {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": "", "TOY_ATTEMPTS": str(attempts)}
    with head(settings, hidden=[*theirs, *ours]) as started:
        address = started.address
        done = _sweep(home, address, *project.RUN, "--results-dir", str(tmp_path / "results"))
        assert done.returncode == 0, done.stdout + done.stderr
        named_alike = home / "trainables"  # a folder of the user's that has the name of one of ours
        named_alike.mkdir()
        (named_alike / "__init__.py").touch()
        (named_alike / "mine.py").write_text("from my_project.model import *\n")
        few = (*(word.replace("my_project.model", "mine") for word in project.RUN), "--num-trials", "1")
        few += ("--name", "alike")
        alike = _sweep(home, address, *few, "--results-dir", str(tmp_path / "results"))
        assert alike.returncode == 0, alike.stdout + alike.stderr
    assert "code       my_layers.py, my_project, my_tools, trainables, sweeps: " in alike.stdout
    for name, count in (("mine", 3), ("alike", 1)):
        trials = Record.read(tmp_path / "results" / name).trials
        assert [trial.status for trial in trials] == ["finished"] * count


@pytest.mark.long
def test_pcs_without_this_package_end_the_sweep_at_once_and_say_so(tmp_path: Path) -> None:
    """One that is installed here is not sent: it is to be installed there too."""
    _skip_without_namespaces()
    installed = project.install(tmp_path / "installed")
    home = project.write(tmp_path / "home")
    with head({**OPEN, "PYTHONPATH": ""}, missing=[ROOT / "sweeps"]) as started:
        done = _sweep(home, started.address, *project.RUN, path=installed)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "code       my_layers.py, my_project, my_tools: the current version is sent" in done.stdout
    assert "ModuleNotFoundError: No module named 'sweeps' (is it installed on every PC?)" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.long
def test_code_that_ray_does_not_take_is_a_mistake_said_in_a_line(address: str, tmp_path: Path) -> None:
    home = project.write(tmp_path)
    Path(os.fsdecode(bytes(home / "my_project" / "net") + b"\xff.py")).touch()  # a name in no encoding
    done = _sweep(home, address, *project.RUN)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: 'net\\udcff': Ray takes names in UTF-8 alone; rename what has another one\n" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (home / "results" / "mine").exists()


def _skip_without_namespaces() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("hiding folders from a Ray head needs root and unshare")
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True
    )
    if tried.returncode:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
