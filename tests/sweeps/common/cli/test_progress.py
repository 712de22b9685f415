"""How far long work is, where there is no terminal: a line at times, with what is left."""

from __future__ import annotations

import pytest

from sweeps.common.cli.terminal import Bar


def test_a_line_comes_each_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0
    with Bar("Preparing", 40, done=10, clock=lambda: now_s) as shown:
        for _ in range(15):
            now_s += 3
            shown.add(1, "5 rows")
    assert capsys.readouterr().out.splitlines() == [
        "Preparing  14 of 40 files, 5 rows, about 1 min 18 s left",
        "Preparing  18 of 40 files, 5 rows, about 1 min 6 s left",
        "Preparing  22 of 40 files, 5 rows, about 54 s left",
    ]


def test_bytes_are_said_as_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0
    with Bar("Reading raw files", 3 * 10**9, unit="B", clock=lambda: now_s) as shown:
        now_s = 10
        shown.add(10**9)
    assert capsys.readouterr().out == "Reading raw files  1 GB of 3 GB, about 20 s left\n"


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("Preparing", 2) as shown:
        shown.add(2)
    assert capsys.readouterr().out == ""
