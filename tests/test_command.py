"""The installed command `sweeps` by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def typed(*words: str, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    code = "import sys; import raysweeps; sys.exit(raysweeps.main())"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])},
        cwd=path,
        capture_output=True,
        text=True,
    )


def test_the_version_tells_what_a_sweep_stands_on() -> None:
    done = typed("--version")
    assert done.returncode == 0, done.stderr
    assert [part.split()[0] for part in done.stdout.split(", ")] == [
        *("sweeps", "Python", "PyTorch", "Lightning", "Ray", "CUDA")
    ]
    assert f"PyTorch {torch.__version__}, " in done.stdout


def test_without_a_word_it_says_what_there_is() -> None:
    done = typed()
    assert done.returncode == 0
    assert done.stdout == typed("--help").stdout


def test_the_package_of_the_same_name_is_one_line(tmp_path: Path) -> None:
    """As it is where W&B's wheel was unpacked over this program's."""
    theirs = tmp_path / "sweeps"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("from .config import SweepConfig\n")
    (theirs / "bayes_search.py").touch()
    done = typed("--help", path=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: W&B's package sweeps (of wandb[sweeps]) is installed over this ")
    assert done.stderr.count("\n") == 1
