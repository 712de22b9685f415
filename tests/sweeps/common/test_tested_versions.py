"""An untested newer release is named in a line; an older one is refused in a line."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from sweeps import fit, ladder
from sweeps.common.imports import TESTED, newer_than_tested
from sweeps.run import main as run_main
from tests.conftest import ROOT


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose releases are found before those that are installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(there: Path, package: str, release: str) -> None:
    info = there / f"{package}-{release}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {release}\n")
    assert distribution(package).version == release


def test_what_is_installed_here_is_tested() -> None:
    assert newer_than_tested() == []


@pytest.mark.parametrize("release", ["2.15.9", "2.15.0+cu130", "2.15.0rc1"])
def test_a_repair_of_the_newest_is_tested(release: str, installed: Path) -> None:
    install(installed, "torch", release)
    assert newer_than_tested() == []


@pytest.mark.parametrize("release", ["2.16.0", "2.16.0a0+git1234", "3.0.0.dev20270101"])
def test_a_newer_one_is_named_once_and_the_command_goes_on(
    release: str, installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(installed, "torch", release)
    there = ["--results-dir", str(tmp_path / "out"), "--dry-run"]
    assert run_main(["--trainable", "digits_mlp", *there]) == 0
    lines = capsys.readouterr().out.splitlines()
    warned = [line for line in lines if line.startswith("warning")]
    assert warned == [
        f"warning    PyTorch {release} is newer than 2.15, the newest that sweeps was tested with"
    ]


@pytest.mark.parametrize("main", [run_main, fit.main, ladder.main])
def test_an_older_one_is_refused(
    main: object, installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(installed, "lightning", "2.5.2")
    install(installed, "ray", "2.49.2")
    assert callable(main)
    name = ["--trainable", "digits_mlp"] if main is run_main else ["digits_mlp"]
    assert main([*name, "--results-dir", str(tmp_path / "out")]) == 2
    old_lightning, old_ray = capsys.readouterr().err.splitlines()
    assert old_lightning.startswith("error: Lightning 2.5.2 is too old; 2.5.3 or newer is needed: ")
    assert old_lightning.endswith(" install -U 'lightning>=2.5.3'")
    assert old_ray.startswith("Ray 2.49.2 is too old; 2.50 or newer is needed: ")


def test_pip_is_asked_for_the_same_and_the_docs_say_so() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {
        found[1]: found[2]
        for each in project["dependencies"]
        if (found := re.match(r"(\w+)(?:\[\w+\])?>=([\d.]+)", each)) and found[1] in TESTED
    }
    assert asked == {package: oldest for package, (_name, oldest, _newest) in TESTED.items()}
    page = (ROOT / "docs" / "your-own-project.md").read_text()
    for name, oldest, newest in TESTED.values():
        assert f"{name} {oldest} to {newest}" in page
