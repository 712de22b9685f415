"""The command that serves the page of all sweeps; the page itself: tests/sweeps/page/."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sweeps import dashboard
from sweeps.common.errors import UserError
from tests.conftest import ROOT
from tests.support.dashboards import sweep


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "path"), [("results", "/"), (os.fsdecode(b"results/caf\xe9"), "/sweep/caf%5Cudce9")]
)
def test_the_command_says_its_url_serves_and_ends_with_ctrl_c(
    given: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")  # as where a user's language is set
    folder = tmp_path / os.fsdecode(b"results/caf\xe9")
    folder.mkdir(parents=True)
    sweep(folder)
    command = [sys.executable, "-m", "sweeps.dashboard", str(tmp_path / given), "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-browser"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(rf"http://127\.0\.0\.1:\d+{path}\?token=[\w-]{{43}}", url)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(url, timeout=30) as page:
            assert (page.url, "<h1>" in page.read().decode()) == (url.partition("?")[0], True)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "The page has ended.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SWEEPS/ss"], r"ss: no such folder\. Did you mean '.*/s'\?"),
        (["SWEEPS/missing"], r"missing: no such folder\. Existing sweeps: .*/s$"),
        (["SWEEPS/s", "--prt", "1"], "--prt: no such flag. Did you mean '--port'?"),
        (["SWEEPS/s", "--port", "70000"], "--port 70000: must be from 0 .* to 65535"),
        (["SWEEPS/s", "--port", "x"], "--port x: must be a whole number"),
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
