"""What a sweep leaves when it ends: its report."""

from __future__ import annotations

from pathlib import Path

from sweeps.record.record import Record
from tests.support import kinds


def test_a_sweep_leaves_its_report(tmp_path: Path) -> None:
    from sweeps.execution import summary

    record = Record.read(kinds.write("pruned", tmp_path / "sweep"))
    assert summary._report(record) == str(tmp_path / "sweep" / "report.html")
    assert (tmp_path / "sweep" / "report.html").is_file()


def test_a_report_that_can_not_be_written_costs_a_sweep_one_line(tmp_path: Path) -> None:
    from sweeps.execution import summary

    record = Record.read(kinds.write("single", tmp_path / "sweep"))
    (tmp_path / "sweep" / "report.html").mkdir()
    said = summary._report(record)
    assert said.startswith("not written, IsADirectoryError: ")
    assert said.count("\n") == 0
