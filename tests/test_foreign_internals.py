"""What is private in another library is in one module for each library, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

DOCUMENTED = {"_asdict", "_exit", "_fields", "_getframe", "_replace"}
"""Of named tuples, `os` and `sys`."""
OTHERS = {
    "sweeps/execution/driver/tune_state_stub.py": {"_open"},  # what a file system of fsspec defines
    "sweeps/record/record.py": {"_note_system", "_write"},  # of its own class
}
"""Private names that stand elsewhere."""
FILES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "sweeps").rglob("*.py"))]


def private_names(tree: ast.AST) -> Iterator[str]:
    """Private names of other objects than `self` and `cls`, and of other packages' modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != "sweeps":
            names = [*(node.module or "").split("."), *(each.name for each in node.names)]
            yield from (name for name in names if name.startswith("_") and not name.endswith("__"))
        elif isinstance(node, ast.Import):
            names = [name for each in node.names for name in each.name.split(".")]
            yield from (name for name in names if name.startswith("_"))


@pytest.mark.parametrize("file", [file for file in FILES if not file.endswith("_internals.py")])
def test_a_module_takes_nothing_private_from_another_library(file: str) -> None:
    found = set(private_names(ast.parse((ROOT / file).read_text()))) - DOCUMENTED - OTHERS.get(file, set())
    assert not found, f"{file}: move it behind a function of the library's *_internals.py"


@pytest.mark.parametrize(
    "code",
    [
        "from ray._private import state",
        "import torch._dynamo",
        "from torch.nn.modules.batchnorm import _BatchNorm",
        "trainer._checkpoint_connector.restore()",
        "super()._setup_model(model)",
    ],
)
def test_what_is_private_is_seen(code: str) -> None:
    assert set(private_names(ast.parse(code))) - DOCUMENTED


def test_what_is_ones_own_is_not() -> None:
    own = "from sweeps.loggers._follower import following\nself._model = cls._made(point._replace(epoch=1))"
    assert not set(private_names(ast.parse(own))) - DOCUMENTED
