"""`sweeps pcs back` with a `systemctl` of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from sweeps.pcs import back


@pytest.mark.skipif(back.MARK.exists(), reason="this PC is drained, and the command would undo that")
@pytest.mark.parametrize(
    ("restarted", "status", "said"),
    [(0, 0, "This PC joins now."), (1, 1, "This command failed: systemctl --user restart sweeps-pc")],
)
def test_the_exit_status_says_whether_the_unit_was_restarted(
    restarted: int,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\n[ "$2" != restart ] || exit {restarted}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert back.run() == status
    assert capsys.readouterr().out.strip() == said


@pytest.mark.skipif(back.MARK.exists(), reason="this PC is drained, and the command would undo that")
def test_a_restart_that_does_not_end_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(words: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if "restart" in words:
            raise subprocess.TimeoutExpired(words, back.STOPS_S)
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", run)
    assert back.run() == 1
    assert capsys.readouterr().out.strip() == "This command failed: systemctl --user restart sweeps-pc"
