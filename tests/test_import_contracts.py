"""Each contract of import-linter in pyproject.toml holds, and fails when it is broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("sweeps", "trainables", "search_spaces")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
NAMES = {contract["id"]: contract["name"] for contract in CONTRACTS}
UP = "from sweeps.plan import build"
"""A room that is above all those in which it is written here."""
BREAKS: dict[str, list[dict[str, str]]] = {
    "rooms": [
        {"sweeps/common/errors.py": UP},
        {"sweeps/record/trials.py": f"def late():\n    {UP}"},
        {"sweeps/space/point.py": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {UP}"},
        {"sweeps/new_room/__init__.py": "", "sweeps/new_room/file.py": ""},
    ],
    "training": [{"sweeps/training/config.py": "from sweeps.training.runs import fit_loop"}],
    "execution": [{"sweeps/execution/run_context.py": "from sweeps.execution.faults import away_pcs"}],
    "circles": [
        {
            "sweeps/common/one.py": "import sweeps.common.two",
            "sweeps/common/two.py": "import sweeps.common.one",
        }
    ],
    "trainables": [
        {"trainables/bad.py": "from sweeps.config import cli"},
        {"trainables/bad.py": "from sweeps.training.data import shards"},
        {"trainables/bad.py": "import ray"},
    ],
    "plug-ins": [
        {"sweeps/common/bad.py": "import trainables"},
        {"sweeps/plan/build.py": "import search_spaces"},
    ],
    "analysis": [{"sweeps/plan/build.py": "from sweeps.analysis import tables"}],
    "ray": [{"sweeps/record/trials.py": "import ray"}],
    "optuna": [{"sweeps/common/errors.py": "import optuna"}],
}
"""Contract to ways of breaking it: what is added at the end of which files."""


def broken(root: Path) -> set[str]:
    """Names of the contracts that import-linter finds broken in a tree."""
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-logo",
        "--no-cache",
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    lines = " ".join(done.stdout.split())
    found = {name for name in NAMES.values() if f"{name} BROKEN" in lines}
    assert f"Contracts: {len(NAMES) - len(found)} kept, {len(found)} broken." in lines, (
        done.stdout + done.stderr
    )
    assert bool(done.returncode) == bool(found)
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that the contracts are about."""
    root = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_all_contracts_hold(tree: Path) -> None:
    assert broken(tree) == set()


def test_each_contract_is_shown_to_fail() -> None:
    assert set(BREAKS) == set(NAMES)


@pytest.mark.parametrize(
    ("contract", "files"), [(id_, files) for id_, ways in BREAKS.items() for files in ways]
)
def test_a_broken_contract_is_named(contract: str, files: dict[str, str], tree: Path) -> None:
    before = {name: (tree / name).read_text() if (tree / name).exists() else None for name in files}
    try:
        for name, line in files.items():
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).write_text(f"{before[name] or ''}\n{line}\n")
        assert NAMES[contract] in broken(tree)
    finally:
        for name, text in before.items():
            if text is None:
                (tree / name).unlink()
            else:
                (tree / name).write_text(text)
        if (tree / "sweeps" / "new_room").is_dir():
            shutil.rmtree(tree / "sweeps" / "new_room")
