"""Sweeps and those that they refine."""

from __future__ import annotations

from pathlib import Path

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import report_tables
from tests.support import kinds
from tests.support.kinds import add, begun, drawn


def test_lineage_follows_sweeps_to_their_parents(tmp_path: Path) -> None:
    kinds.write("pruned", tmp_path / "first")
    add(begun(tmp_path / "second", parents=[{"name": "first", "folder": "gone/first"}]), drawn(0), 9)
    parents = [{"name": name, "folder": str(tmp_path / name)} for name in ("second", "lost")]
    kinds_of = begun(tmp_path / "third", parents=parents)
    add(kinds_of, drawn(1), 9)
    sweep = analysis_sweep.load(tmp_path / "third")
    rows = report_tables.lineage(sweep).rows
    assert [(name, child) for name, child, _ in rows] == [
        ("third", "(this sweep)"),
        ("second", "third"),
        ("lost", "third"),
        ("first", "second"),
    ]
    missing = [best == "its folder is missing" for *_, best in rows]
    assert missing == [False, False, True, False]


def test_a_sweep_that_is_its_own_ancestor_ends(tmp_path: Path) -> None:
    begun(tmp_path / "a", parents=[{"name": "b", "folder": str(tmp_path / "b")}])
    begun(tmp_path / "b", parents=[{"name": "a", "folder": str(tmp_path / "a")}])
    assert len(report_tables.lineage(analysis_sweep.load(tmp_path / "a")).rows) == 3
