"""A process of pytest-xdist that dies is told with its end, and with what its Ray has noted last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

DIES = """
import os, pathlib, signal

def test_that_dies():
    logs = pathlib.Path(os.environ["RAY_TMPDIR"], "ray/session_1/logs")
    logs.mkdir(parents=True)
    text = "an older line\\n" * 50 + "The program will terminate."
    (logs / f"python-core-driver-01_{os.getpid()}.log").write_text(text)
    END
"""


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("os.write(2, b'why it ends'); os._exit(7)", "has ended: exit status 7\nwhy it ends\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "has ended: SIGKILL"),
    ],
)
def test_its_end_is_told(tmp_path: Path, end: str, told: str) -> None:
    (tmp_path / "test_dies.py").write_text(DIES.replace("END", end))
    options = ["-n", "2", "--max-worker-restart", "0", "-p", "tests.support.crashed", "--rootdir", "."]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "RAY_TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert told in ended.stdout
    assert ended.stdout.count("an older line") == 19
    assert "The program will terminate." in ended.stdout
