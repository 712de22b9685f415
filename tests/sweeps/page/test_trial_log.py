"""The log of a trial: its end, what is added, and what a program prints to change a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.page.sweep import trial_log
from tests.support.dashboards import sweep


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (b"\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m\n", "red and bold\n"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "textlink\n"),
        (b" 10 %\r 50 %\r100 %\nnext\r\n", "100 %\nnext\n"),
        (b"\x00\x08caf\xc3\xa9 \xff\n", "caf\u00e9 \ufffd\n"),
        ("safe\u202egnp.exe\n".encode(), "safegnp.exe\n"),
        (b"<script>alert(1)</script>\n", "<script>alert(1)</script>\n"),
    ],
)
def test_a_log_is_shown_as_a_terminal_shows_it_without_colours(printed: bytes, text: str) -> None:
    assert trial_log.shown(printed) == text


def test_of_a_long_log_the_end_is_shown_from_the_beginning_of_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    end = trial_log.end_of(log, 1000)
    lines = end.text.splitlines()
    assert lines[-1] == "line 99999"
    assert all(line.startswith("line ") for line in lines)
    assert end.ends_at == log.stat().st_size
    assert end.left_out == end.ends_at - len(end.text)


def test_only_whole_lines_that_were_printed_since_are_added(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    ends_at = trial_log.end_of(log).ends_at
    assert trial_log.printed_since(log, ends_at) is None
    with log.open("a") as file:
        file.write("two\nthr")
    added = trial_log.printed_since(log, ends_at)
    assert added is not None
    assert (added.text, added.is_whole) == ("two\n", False)
    assert trial_log.printed_since(log, added.ends_at) is None
    with log.open("a") as file:
        file.write("ee\n")
    rest = trial_log.printed_since(log, added.ends_at)
    assert rest is not None
    assert rest.text == "three\n"


def test_a_log_whose_middle_was_left_out_is_shown_anew(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a long line\n" * 100)
    ends_at = trial_log.end_of(log).ends_at
    log.write_text("short\n")
    found = trial_log.printed_since(log, ends_at)
    assert found is not None
    assert (found.text, found.is_whole) == ("short\n", True)
    log.unlink()
    assert trial_log.printed_since(log, 3) is None
    assert trial_log.end_of(log).text == ""


def test_a_link_to_a_file_outside_the_sweep_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "s" / "logs").mkdir(parents=True)
    trial = sweep(tmp_path / "s").trials[0]
    log = tmp_path / "s" / "logs" / f"{trial.name}.log"
    (tmp_path / "secret").write_text("of another user\n")
    log.symlink_to(tmp_path / "secret")
    assert trial_log.log_of(tmp_path / "s", trial) is None
    log.unlink()
    log.write_text("its own\n")
    (tmp_path / "link").symlink_to(tmp_path / "s")  # of the sweep itself
    found = trial_log.log_of(tmp_path / "link", trial)
    assert found is not None
    assert found.name == log.name
