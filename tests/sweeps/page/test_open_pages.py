"""The pages that are open: a second one is told of the first, and one that a sweep began ends by itself."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sweeps import dashboard
from sweeps.common.errors import UserError
from sweeps.execution.output.page_process import PageProcess
from sweeps.page import server
from sweeps.page.server import UNUSED_S, OpenPage, Usage, open_pages
from sweeps.ray_start.ray_folder import RayFolder
from sweeps.record import lock
from tests.conftest import ROOT
from tests.support.dashboards import Served


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_folder", lambda: tmp_path)


def noted(folder: Path, pid: int = 1, **fields: object) -> OpenPage:
    values = {"url": "http://h:1", "pid": pid, "folders": [str(folder)], "host": "h", "is_read_only": False}
    return OpenPage(**{**values, **fields})  # type: ignore[arg-type]


def test_a_page_is_known_while_its_process_is_there(tmp_path: Path) -> None:
    with server.noted(page := noted(tmp_path)):
        assert open_pages() == [page]
    assert open_pages() == []
    (tmp_path / "7.json").write_text('{"url": "http://of-one-that-was-killed"}')
    assert (open_pages(), [*tmp_path.glob("*.json")]) == ([], [])


def test_only_a_page_of_the_same_kind_is_taken_for_another(tmp_path: Path) -> None:
    page = noted(tmp_path)
    assert page.shows([tmp_path], "h", is_read_only=False)
    assert not page.shows([tmp_path], "h", is_read_only=True)
    assert not page.shows([tmp_path], "0.0.0.0", is_read_only=False)
    assert not page.shows([tmp_path, tmp_path / "more"], "h", is_read_only=False)


def test_a_page_of_one_ray_is_none_of_another(tmp_path: Path) -> None:
    """Where none is named, any does."""
    first, second = noted(tmp_path), noted(tmp_path, ray="h:2")
    assert not first.shows([tmp_path], "h", is_read_only=False, ray="h:2")
    assert second.shows([tmp_path], "h", is_read_only=False, ray="h:2")
    assert second.shows([tmp_path], "h", is_read_only=False)


def test_a_second_page_begins_for_the_ray_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def end_at_once(*_: object) -> None: ...

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # a token is made there
    monkeypatch.setattr(server, "serve", end_at_once)
    monkeypatch.setenv("RAY_ADDRESS", "h:2")
    asked = dashboard.parse(["--no-browser", "--port", "0"])
    with server.noted(noted(tmp_path / "results", host="127.0.0.1")):
        assert dashboard.dashboard(asked) == 0
        assert "press Ctrl-C to end it" in capsys.readouterr().out
        monkeypatch.delenv("RAY_ADDRESS")
        assert dashboard.dashboard(asked) == 0
        assert "is open already" in capsys.readouterr().out


def test_a_page_that_a_sweep_began_ends_some_time_after_its_last_use(
    results: Path, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.page.server.ray_folders", lambda: [])
    now = [0.0]
    usage = Usage(page.page, lambda: now[0])
    now[0] = UNUSED_S - 1
    assert not usage.has_ended()
    with lock.held(results / "s"):
        now[0] = 1000.0
        assert not usage.has_ended()
    now[0] += UNUSED_S - 1
    assert not usage.has_ended()
    page.page.listeners.number = 1
    now[0] += 2 * UNUSED_S
    assert not usage.has_ended()
    page.page.listeners.number = 0
    now[0] += UNUSED_S + 1
    assert usage.has_ended()


def test_a_page_of_a_sweep_stays_where_no_folder_is_of_use_for_a_ray(
    results: Path, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> list[RayFolder]:
        raise UserError("/tmp: its disk is full")

    now = [0.0]
    usage = Usage(page.page, lambda: now[0])
    monkeypatch.setattr("sweeps.page.server.ray_folders", refuse)
    with lock.held(results / "s"):
        now[0] = 2 * UNUSED_S
        assert not usage.has_ended()
    now[0] += UNUSED_S + 1
    assert usage.has_ended()


def test_a_page_stays_where_the_share_of_its_sweeps_does_not_answer(
    page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_any_running() -> bool:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr("sweeps.page.server.ray_folders", lambda: [])
    monkeypatch.setattr(page.page.sweeps, "is_any_running", is_any_running)
    now = [0.0]
    usage = Usage(page.page, lambda: now[0])
    now[0] = 2 * UNUSED_S
    assert not usage.has_ended()


@pytest.mark.slow
def test_a_second_page_prints_the_address_of_the_first(results: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "sweeps", "dashboard", str(results), "--no-browser", "--port", "0"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        url = first.stdout.readline()
        second = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
        assert (second.returncode, second.stdout) == (
            0,
            f"{url}is open already, in process {first.pid}\n",
        )
        first.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_sweep_prints_the_address_of_its_page_or_why_there_is_none(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweeps.py").write_text("print('mine')")
    process = PageProcess(results)
    try:
        said = process.describe()
        assert said.startswith("dashboard  http://127.0.0.1:")
        # Nobody reads what it prints any more: it prints on all the same, and answers.
        os.close(os.open(f"/proc/{process._process.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK))
        with urllib.request.urlopen(said.split()[1].partition("?")[0] + "login", timeout=60) as answer:
            assert answer.status == 200
    finally:
        os.kill(process._process.pid, signal.SIGTERM)
    nothing = PageProcess(tmp_path / "nothing").describe()
    assert nothing.startswith("dashboard  none: error: ")
    assert "no such folder" in nothing


def test_a_host_that_can_be_no_name_is_a_users_mistake() -> None:
    with pytest.raises(UserError, match=r"^--host head\.\.lan: "):
        server.listening_socket("head..lan", 0)
