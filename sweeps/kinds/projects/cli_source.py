"""Whether the source of a program makes a LightningCLI. It is read; nothing of the project runs."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sweeps.common import plugins, project
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path

CLI = "LightningCLI"


def module_of(typed: str, marks: Collection[str]) -> str:
    """The module of a program that makes a LightningCLI, of its path or its dotted path; "" of another word.

    A program that imports a file beside it by its bare name is run in its own folder, which becomes the
    project's.

    Args:
        typed: a word of the command line.
        marks: of a trainable, as in PlugInKind. A file that defines one is that, whatever else it does.

    Raises:
        UserError: the program, or a file of the project that it calls, is no Python.
    """
    is_path = typed.endswith(".py") or "/" in typed
    file = _program(Path(typed).expanduser().resolve()) if is_path else _program_of(typed)
    if file is None or not _makes_cli(file, marks):
        return ""
    if not is_path:
        return typed
    beside = [name for name, _ in _imports(file) if "." not in name and _file_of(name, [file.parent])]
    if any(_file_of(name, [project.folder()]) is None for name in beside):
        project.use(file.parent)
    return project.dotted(file).removesuffix(".__main__")


def _program(path: Path) -> Path | None:
    """The file that runs as the program of a file or a package; None where there is none."""
    file = path / "__main__.py" if path.is_dir() else path
    return file if file.suffix == ".py" and file.is_file() else None


def _program_of(module: str) -> Path | None:
    """The same of a module of the project, or of one that is installed. No package is imported for it."""
    first, *rest = module.split(".")
    if not all(part.isidentifier() for part in (first, *rest)):
        return None
    places = [project.folder()]
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(first) if rest else None
        places += [Path(place).parent for place in (spec and spec.submodule_search_locations) or ()]
    below = [place.joinpath(first, *rest) for place in places]
    found = (_program(path) or _program(path.with_name(f"{path.name}.py")) for path in below)
    return next(filter(None, found), None)


def _makes_cli(file: Path, marks: Collection[str], seen: Collection[Path] = ()) -> bool:
    """Whether a program names LightningCLI, or calls what it imports from a file of the project that does."""
    nodes = [] if file in seen or plugins.defines(file, marks) else _nodes(file)
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    names |= {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    names |= {each.name for each in nodes if isinstance(each, ast.alias | ast.FunctionDef)}
    if CLI in names:
        return True
    called = {ast.unparse(each.func).partition(".")[0] for each in nodes if isinstance(each, ast.Call)}
    others = [
        _file_of(name, [project.folder(), file.parent]) for name, as_ in _imports(file) if as_ in called
    ]
    return any(_makes_cli(other, marks, (*seen, file)) for other in others if other is not None)


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    """The dotted path of each module that a file imports, or may import, with its name in the file."""
    for node in _nodes(file):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name, each.asname or each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for each in node.names:
                yield base, each.asname or each.name
                yield f"{base}.{each.name}" if node.module else f"{base}{each.name}", each.asname or each.name


def _file_of(module: str, places: Sequence[Path]) -> Path | None:
    """The file of a module in one of these folders; None of a library's. A relative one is below the last."""
    name = module.lstrip(".")
    if up := len(module) - len(name):
        places = [(places[-1] / "x").parents[up - 1]]
    for place in places if name else ():
        below = place.joinpath(*name.split("."))
        for found in (below.with_name(f"{below.name}.py"), below / "__init__.py"):
            if found.is_file():
                return found
    return None


def _nodes(file: Path) -> list[ast.AST]:
    """Of the parsed file."""
    try:
        return list(ast.walk(ast.parse(file.read_text(errors="replace"), str(file))))
    except (SyntaxError, ValueError) as error:  # the latter of null bytes
        raise UserError(f"{shown_path(file)} is no Python: {error}") from None
