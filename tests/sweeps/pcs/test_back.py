"""`sweeps pcs back` with a `systemctl` of ours."""

from __future__ import annotations

import os
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
