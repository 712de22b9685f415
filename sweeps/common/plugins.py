"""Find a plug-in: by its name in the project, by the path of its file, or by its dotted path.

Every public module in the folder of its kind is a plug-in, without a list. So is a `.py` file beside that
folder if it defines a name that marks the kind.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import os
import pkgutil
import symtable
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from sweeps.common import imports, project
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, pip_install, show_paths_from
from sweeps.common.project import TRAINABLES
from sweeps.common.yaml_values import nearest


@dataclass(frozen=True)
class PlugInKind:
    """A kind of plug-in."""

    name: str
    """As `search space`."""
    folder: str
    """Package of those with a plain name."""
    defines: tuple[str, ...]
    """Names that each must define."""
    flag: str
    """For messages."""
    check: Callable[[str, ModuleType], None] = lambda asked, module: None
    """Gets the flag with its value, and the module; raises a UserError where the contract is broken."""
    marks: tuple[str, ...] = ()
    """A file of the project that defines one of these, `name` or `name(argument, argument)`, is of this kind;
    () for a kind of this program."""


def choices(kind: PlugInKind) -> list[str]:
    """Names of the plug-ins of a kind in the project, or in this program."""
    if not kind.marks:
        return sorted(_public(importlib.import_module(kind.folder).__path__))
    here = project.folder()
    marked = [
        file.stem
        for folder in (here, here / TRAINABLES)
        for file in folder.glob("[!_]*.py")
        if file.stem.isidentifier() and defines(file, kind.marks)
    ]
    return sorted({*_public([str(here / kind.folder)]), *marked})


def name_of(kind: PlugInKind, typed: str) -> str:
    """The name of a plug-in that was given as a name or as the path of a file.

    Raises:
        UserError: there is no such file.
    """
    if not _is_file(typed):
        return typed
    path = path_of(kind, typed)
    plain = path.removeprefix(f"{kind.folder}.")
    return path if "." in plain else plain


def find(kind: PlugInKind, name: str) -> ModuleType:
    """The module of a plug-in, with its contract checked.

    Raises:
        UserError: it does not exist, can't be imported, or breaks the contract.
    """
    project.enter()
    path = existing_path(kind, name)
    module = _import(kind, name, path)
    if lacking := ", ".join(entry for entry in kind.defines if not hasattr(module, entry)):
        needed = f"a {kind.name} defines {', '.join(kind.defines)}"
        raise UserError(f"{kind.flag} {name}: {module.__file__} does not define {lacking} ({needed})")
    kind.check(f"{kind.flag} {name}", module)
    return module


def existing_path(kind: PlugInKind, name: str) -> str:
    """The dotted path of a plug-in that is there; it is not imported.

    Raises:
        UserError: it is not there.
    """
    if not _exists(path := path_of(kind, name)):
        raise UserError(_no_such(kind, name))
    return path


def _is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name


def path_of(kind: PlugInKind, name: str) -> str:
    """The dotted path of a plug-in given by its name or by the path of its file."""
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


def no_project(kind: PlugInKind) -> str:
    """The error for a folder without a trainable."""
    return (
        f"{project.folder()} is not a project: it has no {TRAINABLES}/ and no .py file that defines "
        f"{' or '.join(kind.marks)}. To start one: {command('init', 'FOLDER')}. A program that prints its "
        f"metric needs none: {command('run', '--command', 'PROGRAM')}"
    )


def _no_such(kind: PlugInKind, name: str) -> str:
    known, near = choices(kind), beside(name)
    if kind.folder == TRAINABLES and not known and not near:
        return f"{kind.flag} {name}: no such {kind.name}. {no_project(kind)}"
    listed = ", ".join([*known, "the path of a .py file, or a dotted path to a module of yours"])
    return f"{kind.flag} {name}: no such {kind.name}.{nearest(name, [*known, *near])} Choices: {listed}."


def beside(name: str) -> list[str]:
    """Similar names: files of the same folder, modules of the same package, else of any package here."""
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


def defines(file: Path, names: Iterable[str]) -> bool:
    """Whether a file defines one of these marks; it is not imported."""
    marks = {name.partition("(")[0]: name for name in names}
    try:
        text = file.read_text(errors="replace")
        if not any(name in text for name in marks):
            return False
        table = symtable.symtable(text, str(file), "exec")
    except (OSError, SyntaxError, ValueError):  # a link to no file, say; of a NUL Python 3.11 is a ValueError
        return False
    functions = {
        f"{child.get_name()}({', '.join(child.get_parameters())})"
        for child in table.get_children()
        if isinstance(child, symtable.Function)
    }
    return any(
        "(" not in mark or mark in functions
        for symbol in table.get_symbols()
        if symbol.is_assigned() and (mark := marks.get(symbol.get_name())) is not None
    )


def _exists(path: str) -> bool:
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts) or parts[-1].startswith("_"):
        return False
    try:
        with _kept_process(path):
            return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError as error:
        # A package on the way to it; any other module is missing inside one, and the import will say so.
        return error.name not in [".".join(parts[: n + 1]) for n in range(len(parts))]
    except (Exception, SystemExit):  # a package on the way to it raises; the import will say so
        return True


_folders: dict[str, Path] = {}
"""Dotted path of a plug-in to the folder that its import has changed to."""


def enter_folder_of(path: str) -> None:
    """Go where the import of a plug-in of this dotted path went, before its code reads files from there."""
    if (folder := _folders.get(path)) is not None:
        own = project.folder()
        show_paths_from(Path.cwd())
        os.chdir(folder)
        project.use(own)


def _end(self: argparse.ArgumentParser, message: str) -> NoReturn:
    raise SystemExit(2)


@contextmanager
def _kept_process(path: str) -> Iterator[None]:
    """Keep the folder and the log of this process, whatever the import of a user's file changes. Arguments
    that the file reads are refused without argparse's usage, which would look like that of this program."""
    folder, log = Path.cwd(), logging.getLogger()
    error: Any = argparse.ArgumentParser.error
    # Replaced on the class, since the parser is the file's own; mypy wants none of its methods to change.
    argparse.ArgumentParser.error = _end  # type: ignore[method-assign]
    level, handlers = log.level, log.handlers[:]
    try:
        yield
    finally:
        argparse.ArgumentParser.error = error  # type: ignore[method-assign]
        log.setLevel(level)
        log.handlers[:] = handlers
        if Path.cwd() != folder:
            _folders[path] = Path.cwd()
            os.chdir(folder)


def _import(kind: PlugInKind, name: str, path: str) -> ModuleType:
    try:
        with _kept_process(path), imports.fast(), imports.of_users():
            module = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        on_the_way = tuple(f"/{part}{end}" for part in path.split(".") for end in (".py", "/__init__.py"))
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(on_the_way)]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        kind_of = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        said = f"{kind_of}{error}".removesuffix(": ")
        if isinstance(error, SystemExit):
            put = 'Put what only a program does, such as reading flags, below if __name__ == "__main__":'
            said = f"it ends the program ({said}). {put}"
        where += project.hides(error) + project.is_elsewhere(error)
        raise UserError(f"{kind.flag} {name}: can't be imported: {said}{where}") from error
    own = project.file_in(project.folder(), path)
    if own is not None and own != Path(str(module.__file__)).resolve():
        is_copy = Path(sysconfig.get_path("purelib")) in Path(str(module.__file__)).parents
        replace = f"It is an installed copy; replace it: {pip_install('-e', '.')}"
        to_do = replace if is_copy else "Rename one of them"
        raise UserError(f"{kind.flag} {name}: Python imported {module.__file__} in place of {own}. {to_do}")
    return module
