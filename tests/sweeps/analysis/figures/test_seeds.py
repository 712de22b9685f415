"""The spread over seeds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.compared_trials import compared_trials
from tests.support.kinds import add, begun, drawn, rerun


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
