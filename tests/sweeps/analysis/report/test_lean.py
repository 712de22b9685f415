"""The page as the programs import it, in a process of its own: other tests import what it leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

PAGES = """
import sys
from pathlib import Path

from sweeps.analysis import sweep
from sweeps.analysis.report.lean import page

assert "matplotlib" not in sys.modules and "sklearn" not in sys.modules
for folder in sys.argv[1:]:
    assert page.NOT_DRAWN not in page.page(sweep.load(Path(folder))), folder
assert "matplotlib" not in sys.modules and "sklearn" not in sys.modules
import matplotlib.pyplot
import sklearn.ensemble
"""


def test_every_figure_is_drawn_without_what_is_left_out(folders: dict[str, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PAGES, *map(str, folders.values())],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
