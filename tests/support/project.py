"""A project of a user's own, outside this repository, and this program installed as a user has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests import ROOT

FILES = {
    "my_project/__init__.py": "",
    "my_project/_parts.py": "from my_tools.tool import TOOL\n",
    "my_project/search.py": "from my_project._drawing import Searcher\n",
    "my_project/_drawing.py": "from sweeps.searchers.random import Searcher\n",
    "my_project/prune.py": (
        "from sweeps.schedulers import asha\n\n\nclass Scheduler(asha.Scheduler):\n"
        "    @classmethod\n    def describe(cls, config):\n        return 'my own rungs'\n"
    ),
    "my_layers.py": "LAYERS = 3\n",
    "my_tools/tool.py": "TOOL = 'hammer'\n",
    "unrelated/data.py": "DATA = 1\n",
}
"""Helpers beside and below the package, one of them in a folder without an `__init__.py`."""

RUN = (
    *("--trainable", "my_project.model", "--search-space", "my_project.space", "--name", "mine"),
    *("--searcher", "my_project.search", "--scheduler", "my_project.prune"),
    *("--num-trials", "3", "--max-epochs", "3", "--max-concurrent", "1", "--no-ray-dashboard"),
)


def write(folder: Path) -> Path:
    """The project; its folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    toy = (ROOT / "tests" / "faulty" / "toy.py").read_text()
    uses = "import my_layers\nfrom . import _parts\n\nMETRIC, MODE"
    (folder / "my_project" / "model.py").write_text(toy.replace("METRIC, MODE", uses, 1))
    shutil.copy(ROOT / "tests" / "faulty" / "slopes.py", folder / "my_project" / "space.py")
    return folder


def install(folder: Path) -> Path:
    """This program as a wheel, installed by pip; what PYTHONPATH must hold."""
    source, target = folder / "source", folder / "site-packages"
    for package in ("sweeps", "trainables", "search_spaces"):  # all that the checkout has
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE", "raysweeps.py"):
        shutil.copy(ROOT / file, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, *offline, "--target", str(target), str(source)], check=True, capture_output=True)
    return target
