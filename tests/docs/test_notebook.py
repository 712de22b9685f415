"""The notebook, run as people run it: on a sweep that runs, and on one that has just begun.

`tests/end_to_end/test_sweep.py` runs it on one that has ended.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from sweeps.analysis import figures
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import lock
from tests.conftest import ROOT, Command

NOTEBOOK = ROOT / "notebooks" / "analyze_sweep.ipynb"
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture(scope="module")
def folder(sweep: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of digits_mlp: 6 trials of 4 epochs."""
    results = tmp_path_factory.mktemp("results")
    arguments = ("--trainable", "digits_mlp", "--num-trials", "6", "--max-epochs", "4", "--name", "digits")
    keeping = ("--checkpoint-epochs", "1", "--keep-checkpoints", "6")
    small = ("--max-concurrent", "1", "--no-ray-dashboard")
    done = sweep(*arguments, *keeping, *small, "--results-dir", str(results))
    assert done.returncode == 0, done.stderr
    return results / "digits"


def run(monkeypatch: pytest.MonkeyPatch, sweep: Path) -> list[Any]:
    """The code cells, with what came out of them; raises what a cell raises."""
    monkeypatch.setenv("SWEEP", str(sweep))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(NOTEBOOK.parent)}}  # Jupyter starts a kernel there
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(cells: list[Any], source: str) -> str:
    """What the cell that has this in its source printed, or showed as its value."""
    (cell,) = [cell for cell in cells if source in cell.source]
    return "".join(each.get("text") or each["data"]["text/plain"] for each in cell.outputs)


def figures_in(cells: list[Any]) -> list[str]:
    """Names of the figures that were drawn."""
    drawn = [cell for cell in cells if any(PLOTLY in output.get("data", {}) for output in cell.outputs)]
    return [cell.source.removeprefix("figures.").removesuffix("(sweep)") for cell in drawn]


def share_right(cells: list[Any]) -> float:
    right, rows = re.findall(r"right +(\d+) of (\d+)", text_of(cells, "model(rows)"))[0]
    return int(right) / int(rows)


def test_the_notebook_is_kept_without_what_came_out_of_it() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []


def test_it_shows_every_figure_there_is() -> None:
    source = NOTEBOOK.read_text()
    assert [name for name in figures.FIGURES if f"figures.{name}(sweep)" not in source] == []


@pytest.mark.long
def test_it_shows_a_sweep_that_is_running(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is cut in the middle of a line behind the third trial that ended; no `best/` yet."""
    running = Path(
        shutil.copytree(folder, tmp_path / "digits", ignore=shutil.ignore_patterns("best", "*.parquet"))
    )
    content = (folder / JOURNAL).read_bytes()
    ends = [match.end() for match in re.finditer(rb'"state":[123].*\n', content)]
    (running / JOURNAL).write_bytes(content[: ends[2] + 30])
    with lock.held(running):
        cells = run(monkeypatch, running)
    assert sorted(figures_in(cells)) == sorted(figures.FIGURES)
    assert "running" in text_of(cells, "compare([sweep])")
    score = float(re.findall(r"score=([\d.]+)", text_of(cells, "best = sweep.best()"))[0])
    assert share_right(cells) == pytest.approx(score, abs=0.01)


@pytest.mark.long
def test_it_says_what_a_sweep_that_has_just_begun_lacks(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "digits"
    begun.mkdir()
    content = (folder / JOURNAL).read_bytes()
    (begun / JOURNAL).write_bytes(content[: content.index(b'"epoch:1"')])
    cells = run(monkeypatch, begun)
    assert "No trial has a score yet" in text_of(cells, "best = sweep.best()")
