"""Sweeps and those that they refine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.compared_trials import compared_trials
from sweeps.analysis.figures.best_trials import ancestors
from tests.support import kinds
from tests.support.kinds import add, begun, drawn, rerun


def test_lineage_follows_sweeps_to_their_parents(tmp_path: Path) -> None:
    kinds.write("pruned", tmp_path / "first")
    add(begun(tmp_path / "second", parents=[{"name": "first", "folder": "gone/first"}]), drawn(0), 9)
    parents = [{"name": name, "folder": str(tmp_path / name)} for name in ("second", "lost")]
    kinds_of = begun(tmp_path / "third", parents=parents)
    add(kinds_of, drawn(1), 9)
    sweep = analysis_sweep.load(tmp_path / "third")
    found = [(one.name, one.child, bool(one.best)) for one in ancestors(sweep)]
    assert found == [
        ("third", "", True),
        ("second", "third", True),
        ("lost", "third", False),
        ("first", "second", True),
    ]
    (table,) = analysis_figures.lineage(sweep).data
    assert list(table.cells["values"][0]) == ["third", "second", "lost", "first"]
    assert table.cells["values"][2][2] == "its folder is missing"


def test_a_sweep_that_is_its_own_ancestor_ends(tmp_path: Path) -> None:
    begun(tmp_path / "a", parents=[{"name": "b", "folder": str(tmp_path / "b")}])
    begun(tmp_path / "b", parents=[{"name": "a", "folder": str(tmp_path / "a")}])
    assert len(ancestors(analysis_sweep.load(tmp_path / "a"))) == 3


def test_reruns_show_their_spread_and_stay_out_of_the_search(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for score in (0.9, 0.8):
        add(record, drawn(len(record.trials)), 1, score={1: score}.__getitem__)
    for number, score in ((0, 0.6), (0, 0.7), (1, 0.75)):
        rerun(record, number, score)
    sweep = analysis_sweep.load(tmp_path)
    points, means, search = analysis_figures.seeds(sweep).data
    assert list(zip(points.x, points.y, strict=True)) == [
        ("trial 1", 0.75),
        ("trial 0", 0.6),
        ("trial 0", 0.7),
    ]
    assert list(means.y) == pytest.approx([0.75, 0.65]), "the score that it was chosen for is not in it"
    assert list(means.error_y.array) == pytest.approx([0.0, 0.1 / math.sqrt(2)])
    assert list(search.y) == [0.8, 0.9]
    found = compared_trials(sweep.record)
    assert sorted(found.scores) == [0, 1]


def test_the_first_rerun_shows_while_others_are_to_come(tmp_path: Path) -> None:
    record = begun(tmp_path, confirm={"top": 1, "seeds": 2})
    add(record, drawn(0), 1)
    rerun(record, 0, 0.5, "unfinished")
    assert "No rerun has ended well" in analysis_figures.why_blank(
        analysis_figures.seeds(analysis_sweep.load(tmp_path))
    )
    record.end(1, "finished")
    rerun(record, 0, 0.6, "unfinished")
    (points, _, _) = analysis_figures.seeds(analysis_sweep.load(tmp_path)).data
    assert list(points.y) == [0.5]
