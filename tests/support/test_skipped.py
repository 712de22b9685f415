"""Tests that were skipped are run again alone, once what they lacked is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

TESTS = """
import pathlib, pytest

def test_that_needs_nothing(): ...

@pytest.mark.parametrize("name", ["one", "two"])
def test_that_needs_a_tool(name):
    if not pathlib.Path(name).exists():
        pytest.skip(f"{name} is not installed")
"""
WHOLE = """
import pytest
pytest.importorskip("installed_later")

def test_that_needs_a_package(): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_tools.py").write_text(TESTS)
    (tmp_path / "test_package.py").write_text(WHOLE)
    return tmp_path


def run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.support.skipped", "--rootdir", str(folder)]
    code = {"PYTHONPATH": f"{ROOT}:{folder}", "PATH": "/usr/bin:/bin"}
    return subprocess.run([*command, *flags], cwd=folder, env=code, capture_output=True, text=True)


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_those_that_were_skipped_are_run_alone(folder: Path, processes: tuple[str, ...]) -> None:
    first = run(folder, "--note-skipped", *processes)
    assert first.returncode == 0, first.stdout
    assert "1 passed, 3 skipped" in first.stdout
    (folder / "two").touch()
    (folder / "installed_later.py").touch()
    again = run(folder, "--only-skipped", *processes)
    assert "2 passed, 1 skipped" in again.stdout
    assert "test_that_needs_nothing" not in again.stdout


def test_a_first_run_is_asked_for(folder: Path) -> None:
    refused = run(folder, "--only-skipped")
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--only-skipped: no run with --note-skipped before this one (make test)" in refused.stderr
