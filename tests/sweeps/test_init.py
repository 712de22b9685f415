"""`sweeps init`: the project that it writes is swept, trained and tested for real, and works from
anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps import init
from sweeps.record.record import Record
from tests.conftest import ROOT

SMALL = ("--max-epochs", "3", "--max-concurrent", "1", "--no-ray-dashboard")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the package alone, as site-packages of the wheel does."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "sweeps").symlink_to(ROOT / "sweeps")
    return folder


def typed(program: Path, here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(program), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.fixture
def project(program: Path, tmp_path: Path) -> Path:
    done = typed(program, tmp_path, "sweeps", "init", "My Project")
    assert done.returncode == 0, done.stderr
    return tmp_path / "My Project"


def test_a_project_is_written_once(program: Path, project: Path) -> None:
    files = sorted(path.name for path in project.iterdir())
    assert files == [
        ".gitignore",
        "README.md",
        "digits.py",
        "digits_data.py",
        "pyproject.toml",
        "test_digits.py",
    ]
    assert len((project / "digits.py").read_text().splitlines()) <= 40
    assert len((project / "README.md").read_text().splitlines()) <= 20
    assert 'name = "my-project"' in (project / "pyproject.toml").read_text()
    (project / "digits.py").unlink()
    done = typed(program, project.parent, "sweeps", "init", "My Project")
    assert done.returncode == 2
    assert done.stderr == "error: My Project is not empty: give a new folder, or an empty one\n"
    assert not (project / "digits.py").exists()


def test_a_folder_that_git_alone_has_written_to_is_empty(program: Path, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert typed(program, tmp_path, "sweeps", "init", ".").returncode == 0
    assert (tmp_path / "digits.py").is_file()


def test_a_file_in_the_place_of_the_folder_is_refused(program: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    done = typed(program, tmp_path, "sweeps", "init", "taken")
    assert done.returncode == 2
    assert done.stderr == "error: taken is a file: give a new folder, or an empty one\n"


def test_a_way_back_from_a_missing_folder_leads_to_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert init.main([f"{tmp_path}/new/.."]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path} is not empty: give a new folder, or an empty one\n"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("README.md", "mine")]


def test_a_link_to_itself_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert init.main([str(tmp_path / "circle")]) == 2
    assert "circle can't be written to: " in capsys.readouterr().err


@pytest.mark.slow
def test_its_own_test_passes(program: Path, project: Path) -> None:
    done = typed(program, project, "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_it_is_swept_and_goes_on_from_any_folder(program: Path, project: Path, tmp_path: Path) -> None:
    done = typed(program, project, "sweeps", "run", "--name", "first", "--num-trials", "1", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    sweep = project / "results" / "first"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(sweep, elsewhere / "first")  # so that no folder above it is the project
    away = str(elsewhere / "first")
    done = typed(program, elsewhere, "sweeps", "run", "--resume", away, "--num-trials", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(elsewhere / "first")
    assert len(record.trials) == 2
    again = ("--params", f"{away}/best/params.yaml", "--max-epochs", "1", "--name", "again")
    done = typed(program, elsewhere, "sweeps", "fit", "digits", *again)
    assert done.returncode == 0, done.stdout + done.stderr
    assert typed(program, elsewhere, "sweeps", "results", away).returncode == 0

    project.rename(tmp_path / "moved")
    for words in (("run", "--resume", away, "--num-trials", "3"), ("fit", "digits", *again[:2])):
        done = typed(program, elsewhere, "sweeps", *words)
        assert done.returncode == 2
        assert f"the project's folder {project} is missing; it was moved or deleted, " in done.stderr
        assert len(done.stderr.splitlines()) == 1
    done = typed(program, tmp_path / "moved", "sweeps", "run", "--resume", away, "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
