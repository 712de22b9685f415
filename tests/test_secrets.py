"""What is secret in the environment gets into no file of a sweep, nor onto its screen."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.ray_start import ray_environment
from tests.conftest import ROOT, TOY
from tests.support.heads import head, with_token, write_token

FEW = (
    *TOY,
    "--num-trials",
    "3",
)


@pytest.mark.long
@pytest.mark.parametrize("where", ["here", "on a cluster"])
def test_a_sweep_tells_no_secret(where: str, tmp_path: Path) -> None:
    """A trial that writes its own environment down is the user's; we do not."""
    token = write_token(tmp_path / "auth_token")
    settings = {
        "AWS_ACCESS_KEY_ID": f"AKIA{secrets.token_hex(8)}",
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20),
        "AWS_SESSION_TOKEN": secrets.token_hex(40),
        "MY_PASSWORD": secrets.token_hex(12),
    }
    hidden = [*settings.values(), token.read_text()]
    environment = {**os.environ, **settings, **with_token(token), "TOY_ATTEMPTS": str(tmp_path)}
    command = [sys.executable, "-m", "sweeps.run", *FEW, "--max-epochs", "3", "--name", "s"]
    command += ["--results-dir", str(tmp_path / "results")]
    if where == "here":
        done = _run(command, environment)
    else:
        with head({**with_token(token), "PYTHONPATH": str(ROOT), "TOY_ATTEMPTS": str(tmp_path)}) as started:
            done = _run([*command, "--address", started.address], environment)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [path for path in (tmp_path / "results" / "s").rglob("*") if path.is_file()]
    assert {"sweep.yaml", "environment.txt", "record.journal", "report.html"} <= {path.name for path in files}
    texts = {path.name: path.read_bytes() for path in files}
    texts["the screen"] = (done.stdout + done.stderr).encode()
    assert [(name, place) for name, text in texts.items() for place in hidden if place.encode() in text] == []
    assert ray_environment.NO_TOKEN_RISK not in done.stdout


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
