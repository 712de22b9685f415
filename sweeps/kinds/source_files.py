"""The source files of a module: its own, and all that it imports of its project, no installed packages.

Found by reading, not importing: loaded modules differ between processes, and an import in a `try` may fail
here. A sweep records the checksums, prepared data is named after them, and a cluster gets the code. So it is
found as well whether a program makes a LightningCLI.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from sweeps.common import plugins, project
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path, size

OUR_ROOT = Path(__file__).absolute().parents[2]
MOST_BYTES = 100 * 10**6
"""Of one package that is sent to a cluster. Ray keeps it in the memory of the head; its limit is 512 MB."""
CLI = "LightningCLI"
Source = tuple[str, Path]
"""Dotted name and file of a module."""


def source_of(module: ModuleType) -> Source:
    """Name and file of an imported module."""
    return module.__name__, Path(str(module.__file__)).absolute()


def files(sources: Iterable[Source]) -> dict[str, Path]:
    """Name, as `my_project/model.py`, to file: of modules, and of what they import of their project."""
    found = (each for source in sources for each in _walk(*source))
    return {f"{name.replace('.', '/')}.py": path for name, path in sorted(found)}


def files_of_training() -> dict[str, Path]:
    """The same for the code that trains a trial; it is not imported."""
    return files([("sweeps.training.runs.fit_loop", OUR_ROOT / "sweeps/training/runs/fit_loop.py")])


def to_send(sources: Iterable[Source]) -> list[Path]:
    """Packages and single files that a cluster needs to import modules, and this program unless installed.

    Raises:
        UserError: one is too big.
    """
    modules = [found for source in dict.fromkeys(sources) for found in sorted(_walk(*source))]
    found = [path.parents[depth - 1] if (depth := name.count(".")) else path for name, path in modules]
    found = [path for path in found if path != OUR_ROOT / "sweeps"] + [OUR_ROOT / "sweeps"]
    sent = [path for path in dict.fromkeys(found) if not _is_installed(path.parent)]
    for path in sent:
        _refuse_big(path)
    return sent


def _walk(module: str, own: Path) -> Iterator[Source]:
    """Dotted name (with `__init__`) and file of a module and all that it imports, anywhere in a file."""
    root = own.parents[module.count(".") + (own.stem == "__init__")]
    package = module.partition(".")[0]
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        path = own if name == module else _file_of(name, package, root)
        if path is None:
            continue  # installed, or a name that is no module: `from package.module import thing`
        is_package = path.stem == "__init__"
        yield (f"{name}.__init__" if is_package else name), path
        home = name if is_package else name.rpartition(".")[0]
        if path == OUR_ROOT / "sweeps" / "__init__.py":
            continue  # it leads to all commands, and who imports any module of this program imports it, too
        with contextlib.suppress(SyntaxError, ValueError):  # the latter of null bytes
            imported = (each for each, _ in imports_of(path.read_bytes(), home))
            waiting += [name.rpartition(".")[0], *imported]


def _file_of(name: str, package: str, root: Path) -> Path | None:
    """The file of a module of the project in `root` or of this program."""
    top = name.partition(".")[0]
    # In site-packages only its own package counts: all others lie beside it.
    roots = [root] if top == package or not _is_installed(root) else []
    roots += [OUR_ROOT] if top == "sweeps" else []
    return project.module_file(name, roots)


@cache
def imports_of(source: bytes, home: str) -> tuple[tuple[str, str], ...]:
    """Dotted names that a file of the package `home` imports, each with its name in the file; some are no
    modules.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """
    found: list[tuple[str, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(each.name, each.asname or each.name.partition(".")[0]) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):  # relative, beyond the top: fails at run time too
                base = importlib.util.resolve_name(relative, home) if node.level else relative
                for each in node.names:
                    own_name = each.asname or each.name
                    found += [(base, own_name), (f"{base}.{each.name}", own_name)]
    return tuple(found)


def makes_cli(file: Path, marks: Collection[str], seen: set[Path] | None = None) -> bool:
    """Whether a program names LightningCLI, or calls what it imports from a file of the project that does.

    Args:
        file: of the program.
        marks: of a trainable, as in PlugInKind. A file that defines one is that, whatever else it does.
        seen: files that are looked at already, each once: many may import the same one.

    Raises:
        UserError: the program, or a file of the project that it calls, is no Python.
    """
    seen = set() if seen is None else seen
    if file in seen or plugins.defines(file, marks):
        return False
    seen.add(file)
    source, here = file.read_bytes(), project.folder()
    try:
        nodes = list(ast.walk(ast.parse(source, str(file))))
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{shown_path(file)} is no Python: {error}") from None
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    names |= {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    names |= {each.name for each in nodes if isinstance(each, ast.alias | ast.FunctionDef)}
    if CLI in names:
        return True
    is_within = file.is_relative_to(here)
    root = here if is_within else next(each for each in file.parents if not (each / "__init__.py").is_file())
    home = ".".join(file.parent.relative_to(root).parts)
    called = {ast.unparse(each.func).partition(".")[0] for each in nodes if isinstance(each, ast.Call)}
    imported = [name for name, own_name in imports_of(source, home) if own_name in called]
    others = [project.module_file(name, (root, here, file.parent)) for name in imported]
    return any(makes_cli(other, marks, seen) for other in others if other is not None)


def _is_installed(root: Path) -> bool:
    """Whether a folder holds installed packages."""
    return root.name in ("site-packages", "dist-packages") or any(root.glob("*.dist-info"))


def _refuse_big(package: Path) -> None:
    total, largest = 0, (0, package)
    for folder, _, names in os.walk(package, followlinks=True):  # as Ray does
        for path in (Path(folder, name) for name in names if not folder.endswith("__pycache__")):
            with contextlib.suppress(OSError):  # a link to nothing
                of_file = path.stat().st_size
                total, largest = total + of_file, max(largest, (of_file, path))
        if total > MOST_BYTES:
            raise UserError(
                f"--address: {package} is sent to every PC as code, and is larger than "
                f"{size(MOST_BYTES)} (largest file: {largest[1]}, {size(largest[0])}). "
                "Move data out of the package"
            )
