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
BREAKS: list[dict[str, dict[str, str]]] = [
    {
        "training": {"sweeps/training/config.py": "from sweeps.training.runs import fit_loop"},
        "execution": {"sweeps/execution/run_context.py": "from sweeps.execution.faults import away_pcs"},
        "trainables": {"trainables/bad.py": "from sweeps.config import cli"},
        "plug-ins": {"sweeps/common/bad.py": "import trainables"},
        "ray": {"sweeps/record/trials.py": "import ray"},
        "optuna": {"sweeps/common/errors.py": "import optuna"},
    },
    {
        "circles": {
            "sweeps/common/one.py": "import sweeps.common.two",
            "sweeps/common/two.py": "import sweeps.common.one",
        },
        "trainables": {"trainables/bad.py": "from sweeps.training.data import shards"},
        "plug-ins": {"sweeps/plan/build.py": "import search_spaces"},
    },
    {
        "trainables": {"trainables/bad.py": "import ray"},
        "analysis": {"sweeps/plan/build.py": "from sweeps.analysis import tables"},
    },
    {"rooms": {"sweeps/common/errors.py": UP}},
    {"rooms": {"sweeps/record/trials.py": f"def late():\n    {UP}"}},
    {"rooms": {"sweeps/space/point.py": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {UP}"}},
    {"rooms": {"sweeps/new_room/__init__.py": "", "sweeps/new_room/file.py": ""}},
]
"""Contracts to what is added at the end of which files, to break them. Those that stand together do not break
each other's contract: a run of import-linter takes seconds."""


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
    assert {contract for together in BREAKS for contract in together} == set(NAMES)


@pytest.mark.parametrize("together", BREAKS, ids="-".join)
def test_a_broken_contract_is_named(together: dict[str, dict[str, str]], tree: Path) -> None:
    lines = {name: line for files in together.values() for name, line in files.items()}
    assert len(lines) == sum(map(len, together.values())), "each file is changed by one of them"
    before = {name: (tree / name).read_text() if (tree / name).exists() else None for name in lines}
    try:
        for name, line in lines.items():
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).write_text(f"{before[name] or ''}\n{line}\n")
        assert {NAMES[contract] for contract in together} <= broken(tree)
    finally:
        for name, text in before.items():
            if text is None:
                (tree / name).unlink()
            else:
                (tree / name).write_text(text)
        if (tree / "sweeps" / "new_room").is_dir():
            shutil.rmtree(tree / "sweeps" / "new_room")
