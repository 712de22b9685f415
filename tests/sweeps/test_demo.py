"""`sweeps demo`: from the package alone, a sweep to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps import demo as module
from sweeps.record.record import Record
from tests.conftest import ROOT


def demo(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Typed where the package is, but no project of this repository."""
    (here / "program").mkdir(exist_ok=True)
    if not (program := here / "program" / "sweeps").exists():
        program.symlink_to(ROOT / "sweeps")
    return subprocess.run(
        [sys.executable, "-m", "sweeps", "demo", *words],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(program.parent), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.mark.slow
def test_it_sweeps_and_says_how_to_go_on(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    go_on, look, own = done.stdout.splitlines()[-3:]
    assert go_on == "Go on      cd sweeps-demo    # the commands above are for this folder"
    assert look.startswith("Look       xdg-open ")
    report = Path(look.split()[-1])
    assert report.is_file()
    assert "sweeps init my-project" in own
    record = Record.read(report.parent)
    assert {trial.status for trial in record.trials} == {"finished", "pruned"}
    best = record.best()
    assert best is not None
    assert best.best_score(record.objective) > 0.9


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweeps-demo").mkdir()
    (tmp_path / "sweeps-demo" / "mine").touch()
    done = demo(tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: sweeps-demo is not empty: give a new folder, or an empty one\n"


def test_a_sweep_whose_report_was_not_written_has_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "run_main", lambda words: 0)
    assert module.demo(Path("it")) == 0
    assert capsys.readouterr().out.endswith("sweeps init my-project\n")
