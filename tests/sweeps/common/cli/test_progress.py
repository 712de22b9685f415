"""How far long work is, where there is no terminal: a line at times, with what is left."""

from __future__ import annotations

import pytest

from sweeps.common.cli import terminal
from sweeps.common.cli.terminal import Bar


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def test_a_line_comes_each_ten_seconds(seconds: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("Preparing", 40, done=10) as shown:
        for _ in range(15):
            seconds[0] += 3
            shown.add(1, "5 rows")
    assert capsys.readouterr().out.splitlines() == [
        "Preparing  14 of 40 files, 5 rows, about 1 min 18 s left",
        "Preparing  18 of 40 files, 5 rows, about 1 min 6 s left",
        "Preparing  22 of 40 files, 5 rows, about 54 s left",
    ]


def test_bytes_are_said_as_sizes(seconds: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("Reading raw files", 3 * 10**9, unit="B") as shown:
        seconds[0] = 10
        shown.add(10**9)
    assert capsys.readouterr().out == "Reading raw files  1 GB of 3 GB, about 20 s left\n"


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("Preparing", 2) as shown:
        shown.add(2)
    assert capsys.readouterr().out == ""
