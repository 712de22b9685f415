"""An incomplete last line, which a killed driver leaves: every reader tells it, of a sweep that has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps import report, results
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import lock
from sweeps.record.record import Record
from tests.sweeps.record.written import scored

TORN = b'{"op_code":8,"worker_id":"x","user_at'


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of two trials."""
    folder = tmp_path / "s"
    folder.mkdir()
    scored(folder, "max", [[0.1, 0.2], [0.3, 0.4]])
    return folder


def tear(sweep: Path, end: bytes = TORN) -> None:
    with (sweep / JOURNAL).open("ab") as journal:
        journal.write(end)


def shows(sweep: Path) -> int:
    return results.main([str(sweep)])


def reports(sweep: Path) -> int:
    return report.main([str(sweep)])


def loads(sweep: Path) -> int:
    return len(results.load(sweep).trials) - 2


@pytest.mark.parametrize("read", [shows, reports, loads])
def test_every_reader_tells_it_in_one_line(
    read: Callable[[Path], int], sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(sweep) == 0
    assert capsys.readouterr().err == ""
    tear(sweep)
    assert read(sweep) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{JOURNAL}: the last {len(TORN)} bytes are an incomplete line, which is left out" in line

    assert f"run --resume {sweep}" in line


@pytest.mark.parametrize("end", [b"{", b"garbage\n", b'{"op_code":8' + bytes(200_000)])
def test_whatever_the_end_is_the_lines_before_it_are_read(
    end: bytes, sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [trial.epochs for trial in Record.read(sweep).trials]
    tear(sweep, end)
    assert [trial.epochs for trial in Record.read(sweep).trials] == before
    assert f"the last {len(end):,} bytes are" in capsys.readouterr().err


def test_the_last_line_of_a_sweep_that_runs_may_be_in_writing(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tear(sweep)
    with lock.held(sweep):
        Record.read(sweep)
    assert capsys.readouterr().err == ""
    Record.read(sweep)
    assert "are an incomplete line" in capsys.readouterr().err


def test_a_resume_removes_it_and_then_nobody_tells_it(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tear(sweep)
    assert Record.reopen(sweep).cut_bytes == len(TORN)
    Record.read(sweep)
    assert capsys.readouterr().err == ""
