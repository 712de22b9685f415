"""Each figure of each kind of sweep."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import plotly.graph_objects as go
import pytest

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.sweep import Sweep
from tests.support.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", analysis_figures.FIGURES)
def test_each_figure_of_each_kind_of_sweep_shows_something_or_says_why_not(
    name: str, kind: str, sweeps: dict[str, Sweep]
) -> None:
    figure = analysis_figures.FIGURES[name](sweeps[kind])
    assert isinstance(figure, go.Figure)
    assert figure.layout.title.text
    assert figure.layout.height <= 1000, "a printed page holds no more"
    why = analysis_figures.why_blank(figure)
    assert bool(why) != bool(figure.data)
    json.loads(figure.to_json())


OF_ONE_OBJECTIVE = set(analysis_figures.FIGURES) - {"front"}
DRAWN = {
    "weighed": set(analysis_figures.FIGURES) - {"seeds"},
    "pruned": OF_ONE_OBJECTIVE - {"seeds", "metrics"},
    "single": {"learning_curves", "history", "time_spent", "utilization", "timeline"},
    "failed_only": set(),
    "empty": set(),
    "troubled": OF_ONE_OBJECTIVE - {"seeds", "metrics"},
    "several": OF_ONE_OBJECTIVE - {"seeds", "metrics"},
    "conditional": OF_ONE_OBJECTIVE - {"seeds", "metrics"},
    "one_hyperparameter": OF_ONE_OBJECTIVE - {"seeds", "metrics", "importance", "contour"},
}
"""Kind to the figures that show something."""


@pytest.mark.parametrize("kind", DRAWN)
def test_what_can_be_drawn_is_drawn(kind: str, sweeps: dict[str, Sweep]) -> None:
    figures = {name: figure(sweeps[kind]) for name, figure in analysis_figures.FIGURES.items()}
    assert {name for name, figure in figures.items() if not analysis_figures.why_blank(figure)} == DRAWN[kind]


def test_a_copy_of_a_folder_reads_the_same(sweeps: dict[str, Sweep], tmp_path: Path) -> None:
    shutil.copytree(sweeps["pruned"].folder, tmp_path / "copy")
    there, copy = sweeps["pruned"], analysis_sweep.load(tmp_path / "copy")
    assert (
        analysis_figures.learning_curves(copy).to_json() == analysis_figures.learning_curves(there).to_json()
    )
