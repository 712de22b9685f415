"""Find a plug-in: by its name in the project, by the path of its file, or by its dotted path.

A public module in the folder of its kind is a plug-in: a new file is found, not listed. A `.py` file beside
that folder is one too, if it defines what marks its kind.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from sweeps.common import project, trainable_contract
from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.common.project import TRAINABLES
from sweeps.common.yaml_values import nearest


@dataclass(frozen=True)
class Kind:
    """One sort of plug-in."""

    name: str
    """In words, as `search space`."""
    folder: str
    """Package of those with a plain name."""
    defines: tuple[str, ...]
    """Names that each must define."""
    flag: str
    """What names one on the command line, for messages."""
    check: Callable[[str, ModuleType], None] = lambda asked, module: None
    """Raises a UserError where one (how it was asked for, its module) is not as it must be."""
    marks: tuple[str, ...] = ()
    """A file of the project that defines one of these is of this kind; () for a kind of this program."""


def choices(kind: Kind) -> list[str]:
    """The plug-ins of a kind that have a plain name: those of the project, or of this program."""
    if not kind.marks:
        return sorted(_public(importlib.import_module(kind.folder).__path__))
    here = project.folder()
    marked = [
        file.stem
        for folder in (here, here / TRAINABLES)
        for file in folder.glob("[!_]*.py")
        if file.stem.isidentifier() and _defines(file, kind.marks)
    ]
    return sorted({*_public([str(here / kind.folder)]), *marked})


def only(kind: Kind, known: Sequence[str]) -> str:
    """The one plug-in of those known in the project.

    Raises:
        UserError: there are several, or there is none.
    """
    if len(known) == 1:
        return known[0]
    if known:
        raise UserError(f"{kind.flag}: this project has several; give one of {', '.join(known)}")
    if choices(kind):
        raise UserError(f"{kind.flag}: none of this project will do: {', '.join(choices(kind))}")
    raise UserError(_no_project())


def load(path: str) -> ModuleType:
    """Import a module by its dotted path, as `find` has found it; also on another PC."""
    return importlib.import_module(path)


def name_of(kind: Kind, typed: str) -> str:
    """The name of a plug-in that was typed as a name or as the path of a file.

    Raises:
        UserError: there is no such file.
    """
    if not _is_file(typed):
        return typed
    path = path_of(kind, typed)
    plain = path.removeprefix(f"{kind.folder}.")
    return path if "." in plain else plain


def find(kind: Kind, name: str) -> ModuleType:
    """The module of a plug-in, its contract checked.

    Args:
        kind: what it shall be.
        name: a file of the kind's folder or of the project, the path of a `.py` file, or a dotted path.

    Raises:
        UserError: there is none of that name, it can't be imported, or it lacks what it must define.
    """
    project.enter()
    path = path_of(kind, name)
    if not _exists(path):
        raise UserError(_no_such(kind, name))
    module = _import(kind, name, path)
    lacking = [entry for entry in kind.defines if not hasattr(module, entry)]
    if lacking:
        raise UserError(
            f"{kind.flag} {name}: {module.__file__} does not define {', '.join(lacking)} "
            f"(a {kind.name} defines {', '.join(kind.defines)})"
        )
    kind.check(f"{kind.flag} {name}", module)
    return module


def _is_file(name: str) -> bool:
    """Whether a name is the path of a file."""
    return name.endswith(".py") or "/" in name


def path_of(kind: Kind, name: str) -> str:
    """The dotted path that a name, or the path of a file, stands for."""
    if _is_file(name):
        file = Path(name).expanduser().resolve()
        if not file.is_file() or file.suffix != ".py":
            raise UserError(_no_such(kind, name))
        return project.dotted(file)
    if "." in name:
        return name
    for package in dict.fromkeys((kind.folder, *([TRAINABLES] if kind.marks else []))):
        if _exists(f"{package}.{name}"):
            return f"{package}.{name}"
    is_beside = name.isidentifier() and (project.folder() / f"{name}.py").is_file()
    return name if is_beside else f"{kind.folder}.{name}"


def _no_project() -> str:
    return (
        f"{project.folder()} is no project: it has no {TRAINABLES}/ and no .py file that defines "
        f"{', '.join(trainable_contract.DEFINES)}. To begin one: {command('init', 'FOLDER')}"
    )


def _no_such(kind: Kind, name: str) -> str:
    known, beside = choices(kind), _beside(name)
    if kind.folder == TRAINABLES and not known and not beside:
        return f"{kind.flag} {name}: no such {kind.name}. {_no_project()}"
    if "." in name and beside and beside[0].startswith(f"{name.rpartition('.')[0]}."):
        listed = ", ".join(beside)
    else:
        listed = ", ".join([*known, "the path of a .py file, or a dotted path to a module of yours"])
    hint = nearest(name, [*known, *beside])
    return f"{kind.flag} {name}: no such {kind.name}.{hint} Choices: {listed}."


def _beside(name: str) -> list[str]:
    """What a path may have meant: a file of its folder; a module of its package, else of any package here."""
    if _is_file(name):
        folder = Path(name).parent
        return [str(folder / file.name) for file in sorted(folder.expanduser().glob("[!_]*.py"))]
    package = name.rpartition(".")[0]
    if package and _exists(package):
        try:
            spec = importlib.util.find_spec(package)
        except Exception:  # a package on the way to it raises
            return []
        places = spec.submodule_search_locations if spec else None
        return [f"{package}.{module}" for module in _public(places or [])]
    here = project.folder()
    folders = sorted(path for path in here.iterdir() if path.name.isidentifier() and path.is_dir())
    return [f"{folder.name}.{module}" for folder in folders for module in _public([str(folder)])]


def _public(places: Iterable[str]) -> list[str]:
    return [module.name for module in pkgutil.iter_modules(places) if not module.name.startswith("_")]


def _defines(file: Path, names: Iterable[str]) -> bool:
    """Whether a file defines one of these names, by its text: nothing is imported."""
    text = file.read_text(errors="replace")
    if not any(name in text for name in names):
        return False
    try:
        return not set(names).isdisjoint(_defined(ast.parse(text).body))
    except SyntaxError:
        return False


def _defined(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            names = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (name.id for each in names for name in ast.walk(each) if isinstance(name, ast.Name))


def _exists(path: str) -> bool:
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts) or parts[-1].startswith("_"):
        return False
    try:
        return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError as error:
        # A package on the way to it; any other module is missing inside one, and the import will say so.
        return error.name not in [".".join(parts[: n + 1]) for n in range(len(parts))]
    except Exception:  # a package on the way to it raises; the import will say so
        return True


def _import(kind: Kind, name: str, path: str) -> ModuleType:
    try:
        module = load(path)
    except Exception as error:
        on_the_way = {f"/{part}{end}" for part in path.split(".") for end in (".py", "/__init__.py")}
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if any(frame.filename.endswith(end) for end in on_the_way)
        ]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        said = f"{type(error).__name__}: {error}"
        if new := trainable_contract.new_import(error, (frames[-1].line or "") if frames else ""):
            said = f"the package training is called sweeps.training now; write {new}"
        raise UserError(f"{kind.flag} {name}: can't be imported: {said}{where}") from error
    own = project.file_in(project.folder(), path)
    if own is not None and own != Path(str(module.__file__)).resolve():
        raise UserError(
            f"{kind.flag} {name}: Python has imported {module.__file__} in place of {own}: rename one of them"
        )
    return module


TRAINABLE = Kind(
    "trainable",
    TRAINABLES,
    trainable_contract.DEFINES,
    "--trainable",
    trainable_contract.check,
    marks=("build_model",),
)
