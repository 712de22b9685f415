"""This program installed by pip, and a project of the user's own that is somewhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.support import project


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project.install(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return project.write(tmp_path / "home")


def run(installed: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m sweeps.run ...`, typed in the project's folder."""
    settings = {"PYTHONPATH": str(installed), "TOY_ATTEMPTS": str(home.parent)}
    return subprocess.run(
        [sys.executable, "-m", "sweeps.run", *arguments],
        cwd=home,
        env={**os.environ, **settings, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_wheel_holds_all_of_the_package_and_nothing_else(installed: Path) -> None:
    ours = {path.relative_to(ROOT) for path in (ROOT / "sweeps").rglob("*.py")}
    ours |= {path.relative_to(ROOT) for path in (ROOT / "sweeps" / "template").iterdir() if path.is_file()}
    there = {path.relative_to(installed) for path in (installed / "sweeps").rglob("*") if path.is_file()}
    assert ours <= there
    packages = [
        path.name
        for path in installed.iterdir()
        if path.suffix != ".dist-info" and path.name != "__pycache__"
    ]
    assert sorted(packages) == ["bin", "raysweeps.py", "sweeps"]


@pytest.mark.long
def test_the_installed_command_begins_a_project_and_sweeps_it(installed: Path, tmp_path: Path) -> None:
    def typed(here: Path, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, str(installed / "bin" / "sweeps"), *words],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    typed(tmp_path, "init", "mine")
    typed(tmp_path / "mine", "run", "--name", "a", "--num-trials", "2", "--max-epochs", "3")
    record = Record.read(tmp_path / "mine" / "results" / "a")
    assert [trial.status for trial in record.trials] == ["finished"] * 2
    assert record.about["project"] == str(tmp_path / "mine")
    assert {"digits.py", "digits_data.py"} <= set(record.about["identity"]["code"])


@pytest.mark.long
def test_a_project_is_swept_where_it_lies(installed: Path, home: Path) -> None:
    done = run(installed, home, *project.RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "scheduler  my own rungs" in done.stdout
    assert "folder     results/mine" in done.stdout
    record = Record.read(home / "results" / "mine")
    assert [trial.status for trial in record.trials] == ["finished"] * 3
    code = record.about["identity"]["code"]
    assert {"my_project/model.py", "my_layers.py", "my_tools/tool.py", "my_project/_drawing.py"} <= set(code)
    assert {"sweeps/training/runs/fit_loop.py", "sweeps/training/config.py"} <= set(code)
    assert not [name for name in code if name.startswith(("lightning", "torch", "ray", "unrelated"))]


@pytest.mark.long
def test_a_sweep_of_a_project_goes_on_from_there_unless_its_code_changed(installed: Path, home: Path) -> None:
    done = run(installed, home, *project.RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    more = ("--resume", "results/mine", "--num-trials", "5")
    (home / "my_tools" / "tool.py").write_text("TOOL = 'saw'\n")
    changed = run(installed, home, *more)
    assert changed.returncode == 2
    assert "  my_tools/tool.py: its code\n" in changed.stderr
    (home / "my_tools" / "tool.py").write_text(project.FILES["my_tools/tool.py"])
    (home / "unrelated" / "data.py").write_text("DATA = 2\n")
    again = run(installed, home, *more)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(Record.read(home / "results" / "mine").trials) == 5


@pytest.mark.long
@pytest.mark.parametrize("is_package", [True, False])
def test_a_folder_of_trainables_of_the_users_own_is_swept_by_plain_name(
    is_package: bool, installed: Path, home: Path
) -> None:
    for folder in ("trainables", "search_spaces"):
        (home / folder).mkdir()
        if is_package:
            (home / folder / "__init__.py").touch()
    (home / "trainables" / "mine.py").write_text("from my_project.model import *\n")
    (home / "search_spaces" / "mine.py").write_text("from my_project.space import SPACE\n")
    done = run(installed, home, "--trainable", "mine", "--num-trials", "2", "--max-epochs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "space      mine: " in done.stdout
