"""What may import what, no cycles, and a light start; each rule is also shown to fail when broken."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.pcs.__main__ import COMMANDS
from sweeps.ray_cluster import session

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sweeps", "trainables", "search_spaces")
HEAVY = ("torch", "ray", "lightning", "optuna", "numpy", "pyarrow")


def cycles(root: Path) -> list[str]:
    """`a -> b -> a` for each ring of imports that run when a module is imported."""
    trees = modules(root)
    edges = {
        module: {
            target
            for name in imported(module, tree, _at_import(tree), root)
            if (target := _longest_prefix(name, trees)) is not None and target != module
        }
        for module, tree in trees.items()
    }
    found = []

    def follow(path: list[str]) -> None:
        for target in sorted(edges[path[-1]]):
            if target == path[0]:
                found.append(" -> ".join([*path, target]))
            elif target not in path and target > path[0]:  # each ring once, from its first name
                follow([*path, target])

    for module in sorted(edges):
        follow([module])
    return found


def heavy_after(statement: str, root: Path) -> list[str]:
    """The heavy packages that are loaded once a statement has run in a fresh Python in `root`."""
    code = f"import sys\n{statement}\nprint('loaded:', *[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()[-1].removeprefix("loaded:").split()


def modules(root: Path) -> dict[str, ast.Module]:
    """Module name to its syntax tree."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = parsed(path)
    return found


def parsed(path: Path) -> ast.Module:
    """A module's syntax tree. Where the collector runs meanwhile, Python before 3.11.8 may raise SystemError
    (python/cpython#106905)."""
    gc.disable()
    try:
        return ast.parse(path.read_text(), str(path))
    finally:
        gc.enable()


def imported(module: str, tree: ast.Module, nodes: Iterator[ast.AST], root: Path) -> list[str]:
    """Dotted names that import statements name: `from a import b` is a.b."""
    is_package = (root / module.replace(".", "/")).is_dir()
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            kept = module.split(".")[: len(module.split(".")) - node.level + is_package]
            start = [*(kept if node.level else []), *([node.module] if node.module else [])]
            names += [".".join([*start, alias.name]) for alias in node.names]
    return names


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run at import: no function bodies, nothing under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _at_import(child)


def _longest_prefix(name: str, known: dict[str, ast.Module]) -> str | None:
    parts = name.split(".")
    candidates = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((candidate for candidate in candidates if candidate in known), None)


def write_tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()


def test_no_module_imports_itself_in_a_ring() -> None:
    assert cycles(ROOT) == []


ONE_ROOM = {
    "ray.nodes()": ["sweeps/ray_cluster/nodes.py", "sweeps/training/data/ray_pipeline.py"],
    '"nvidia-smi"': ["sweeps/pcs/probe.py"],
}
"""What is read in one room. (The probe is sent to PCs that may have nothing of ours, and the data of a
training knows no room of PCs.)"""


@pytest.mark.parametrize("words", ONE_ROOM)
def test_what_is_read_in_one_room_is_read_in_no_other(words: str) -> None:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    found = [str(file.relative_to(ROOT)) for file in files if words in file.read_text()]
    assert sorted(found) == ONE_ROOM[words]


def test_a_ring_of_imports_is_found(tmp_path: Path) -> None:
    files = {
        "sweeps/a.py": "from sweeps.b import x",
        "sweeps/b.py": "class C:\n    from sweeps import c",
        "sweeps/c.py": "try:\n    import sweeps.a\nexcept ImportError:\n    pass",
    }
    write_tree(tmp_path, files)
    assert cycles(tmp_path) == ["sweeps.a -> sweeps.b -> sweeps.c -> sweeps.a"]


def test_a_late_import_and_one_for_types_make_no_ring(tmp_path: Path) -> None:
    files = {
        "sweeps/a.py": "from sweeps.b import x",
        "sweeps/b.py": "def late():\n    import sweeps.a\nif TYPE_CHECKING:\n    from sweeps.a import y",
    }
    write_tree(tmp_path, files)
    assert cycles(tmp_path) == []


FIT_HELP = (
    "from sweeps.fit import main\ntry:\n    main(['fashion_cnn', '--help'])\nexcept SystemExit:\n    pass"
)
PCS_HELP = [
    f"from sweeps.pcs.__main__ import main\ntry:\n    main(['{one}', '--help'])\nexcept SystemExit:\n    pass"
    for one in COMMANDS
]


@pytest.mark.parametrize(
    "statement",
    [FIT_HELP, *PCS_HELP],
    ids=["fit MODEL --help", *(f"pcs {name} --help" for name in COMMANDS)],
)
def test_the_program_starts_light(statement: str) -> None:
    """As each command with `--help` alone, in tests/sweeps/test___main__.py."""
    assert heavy_after(statement, ROOT) == []


def test_a_heavy_start_is_found(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {"sweeps/run.py": "from sweeps.plan import build as plan", "sweeps/plan/build.py": "import numpy"},
    )
    assert heavy_after("import sweeps.run", tmp_path) == ["numpy"]


@pytest.mark.slow
def test_the_plan_of_a_trainable_that_imports_pytorch_where_it_is_used_does_without(tmp_path: Path) -> None:
    code = """
import sys
from sweeps.run import main
status = main(sys.argv[1:])
print([name for name in ("torch", "lightning", "sklearn") if name in sys.modules], file=sys.stderr)
sys.exit(status)
"""
    arguments = ("--dry-run", "--trainable", "digits_mlp", "--results-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--gpus-per-trial", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    if session.this_pc().gpus == 0:  # to count them is PyTorch's
        assert done.stderr.strip().splitlines()[-1] == "[]"
