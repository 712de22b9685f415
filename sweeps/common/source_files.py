"""The code that a plug-in stands on: its own file and all that it imports of its project.

Found by the text alone: what happens to be imported differs from process to process, and an import in a
`try` may be one that fails here. A sweep notes the checksums, prepared data is named after them, and the
code is sent to the PCs of a cluster. What is installed (torch, say) is in none of it: it has a version,
and is on every PC.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from sweeps.common.errors import UserError
from sweeps.common.formatting import size

OUR_ROOT = Path(__file__).absolute().parents[2]
MOST_BYTES = 100 * 10**6
"""Of what is sent to a cluster of one package. Ray keeps it in the memory of the head (and takes 512 MB
at most); code of that size is data."""


def files(plug_in: ModuleType) -> dict[str, Path]:
    """Name, as `my_project/model.py`, to the file of a plug-in and of what it imports of its project."""
    return _named(_of(plug_in))


def files_of_training() -> dict[str, Path]:
    """The same of what trains one trial; it is not imported for it."""
    return _named(_walk("sweeps.training.fit_loop", OUR_ROOT / "sweeps" / "training" / "fit_loop.py"))


def to_send(plug_ins: Iterable[ModuleType]) -> list[Path]:
    """Packages and single files that a cluster needs to train plug-ins; of this program when it is not
    installed, too.

    Raises:
        UserError: one is too big.
    """
    found = [_top(name, path) for plug_in in plug_ins for name, path in sorted(_of(plug_in))]
    found = [path for path in found if path != OUR_ROOT / "sweeps"] + [OUR_ROOT / "sweeps"]
    sent = [path for path in dict.fromkeys(found) if not _is_installed(path.parent)]
    for path in sent:
        _refuse_big(path)
    return sent


def _named(found: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    return {f"{name.replace('.', '/')}.py": path for name, path in sorted(found)}


def _of(plug_in: ModuleType) -> Iterator[tuple[str, Path]]:
    return _walk(plug_in.__name__, Path(str(plug_in.__file__)).absolute())


def _walk(module: str, own: Path) -> Iterator[tuple[str, Path]]:
    """Dotted name (with `__init__`) and file of each module that one imports, wherever in a file."""
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
        with contextlib.suppress(SyntaxError):
            waiting += [name.rpartition(".")[0], *_imports(path.read_bytes(), home)]


def _file_of(name: str, package: str, root: Path) -> Path | None:
    """The file of a module of the project in `root`, or of ours; nothing is imported for it."""
    top = name.partition(".")[0]
    # Among installed packages only its own: all others would be found beside it.
    roots = [root] if top == package or not _is_installed(root) else []
    roots += [OUR_ROOT] if top == "sweeps" else []
    for place in roots:
        below = place.joinpath(*name.split("."))
        for path in (below / "__init__.py", below.with_name(f"{below.name}.py")):
            if path.is_file():
                return path
    return None


@cache
def _imports(source: bytes, home: str) -> tuple[str, ...]:
    """Dotted names that a file in the package `home` imports; some are no modules."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):  # relative, beyond the top: it fails when it is run
                base = importlib.util.resolve_name(relative, home) if node.level else relative
                found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(found)


def _top(name: str, path: Path) -> Path:
    """The package, or the single file, that holds a module."""
    inner = name.count(".")
    return path.parents[inner - 1] if inner else path


def _is_installed(root: Path) -> bool:
    """Whether pip filled this folder."""
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
                f"--address: {package} is to be sent to every PC as code, and holds more than "
                f"{size(MOST_BYTES)} (the largest file: {largest[1]}, {size(largest[0])}); "
                "move what is no code out of the package"
            )
