"""The command that serves a dashboard; its pages in Chromium: test_dashboard_pages.py."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps import dashboard
from sweeps.common.errors import UserError
from sweeps.config.sweep_folder import JOURNAL
from tests.conftest import ROOT
from tests.support.dashboards import shown, sweep


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.dashboard", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_command_says_its_url_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    sweep(tmp_path)
    with command(str(tmp_path), "--port", "0") as process:
        assert process.stdout is not None
        reading = process.stdout.readline()
        assert reading.startswith(f"Reading {tmp_path}: of all trials, the best is ")
        assert "of those that trained to the end (" in reading
        url = process.stdout.readline().split()[0]
        assert shown(url)["name"] == "s"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "The dashboard has ended.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no sweep in results/ here: give the name or the folder of a sweep"),
        (["SWEEPS/ss"], r"ss: no such folder\. Did you mean '.*/s'\?"),
        (["SWEEPS/missing"], r"missing: no such folder\. Existing sweeps: .*/s$"),
        (["SWEEPS"], "a folder of sweeps, not a sweep. Give one of .*/s$"),
        (["SWEEPS/s", "--prt", "1"], "--prt: no such flag. Did you mean '--port'?"),
        (["SWEEPS/s", "--port", "70000"], "--port 70000: must be from 0 .* to 65535"),
        (["SWEEPS/s", "--port", "x"], "--port x: must be a whole number"),
        (["SWEEPS/s", "b"], "b: not a flag; give one sweep"),
    ],
)
def test_a_mistake_is_a_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no folder of results
    (tmp_path / "s").mkdir()
    sweep(tmp_path / "s")
    with pytest.raises(UserError, match=message):
        dashboard.parse([argument.replace("SWEEPS", str(tmp_path)) for argument in arguments])


def test_a_record_that_can_not_be_read_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(tmp_path)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(b"".join([*lines[:5], b"{damaged\n", *lines[5:]]))
    assert dashboard.main([str(tmp_path), "--port", "0"]) == 2
    assert "line 6 is damaged" in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_gone_when_the_sweep_was_killed(tmp_path: Path) -> None:
    sweep(tmp_path)
    code = """
import sys, time
from pathlib import Path
from sweeps.execution.output import dashboard_server
with dashboard_server.beside(Path(sys.argv[1]), True):
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        url = driver.stdout.readline().split()[1]
        assert shown(url)["name"] == "s"
        driver.kill()
    for _ in range(100):
        try:
            shown(url)
        except (OSError, json.JSONDecodeError):  # refused, or broken off in the middle
            return
        time.sleep(0.1)
    pytest.fail("the dashboard outlives its sweep")
