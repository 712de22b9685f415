"""The lock of a sweep's folder: one process runs it, and who looks stops none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.record import lock
from tests.conftest import ROOT


def test_it_is_held_while_its_block_lasts(tmp_path: Path) -> None:
    assert not lock.is_held(tmp_path)
    assert list(tmp_path.iterdir()) == []  # to look leaves nothing
    with lock.held(tmp_path):
        assert lock.is_held(tmp_path)
        with pytest.raises(UserError, match="already running"), lock.held(tmp_path):
            raise AssertionError("was taken twice")
        assert lock.is_held(tmp_path)
    assert not lock.is_held(tmp_path)


def test_who_looks_whether_a_sweep_runs_stops_none_from_beginning(tmp_path: Path) -> None:
    with lock.held(tmp_path):
        pass
    looking = (
        "import sys\nfrom pathlib import Path\nfrom sweeps.record import lock\nprint('on', flush=True)\n"
        "while True:\n    lock.is_held(Path(sys.argv[1]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", looking, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "on\n"
        for _ in range(30):
            with lock.held(tmp_path):
                pass
        other.kill()
