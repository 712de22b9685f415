"""Find a plug-in by name (`fashion_cnn`) or by dotted path (`my_project.model`).

A public module in the folder of its kind is a plug-in; a new file is found, not listed. A user's own
`trainables/` or `search_spaces/`, where the command is typed, is one with ours, and theirs comes first.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import get_args

from sweeps.common.errors import UserError
from sweeps.common.objective import Mode
from sweeps.common.yaml_values import nearest


@dataclass(frozen=True)
class Kind:
    """One sort of plug-in."""

    name: str
    """In words, as `search space`."""
    folder: str
    """The package that holds those shipped."""
    defines: tuple[str, ...]
    """Names that each must define."""
    flag: str
    """What names one on the command line, for messages."""
    check: Callable[[str, ModuleType], None] = lambda asked, module: None
    """Raises a UserError where one (how it was asked for, its module) is not as it must be."""


FOLDERS = ("trainables", "search_spaces")
"""Packages beside this one; a user's folder may have some of the same name."""
OUR_ROOT = Path(__file__).absolute().parents[2]


def choices(kind: Kind) -> list[str]:
    """The plug-ins of a kind that are here by name: those shipped, and the user's own."""
    _join_folders()
    return sorted(set(_public(importlib.import_module(kind.folder).__path__)))


def load(path: str) -> ModuleType:
    """Import a module by its dotted path, as `find` has found it; also on another PC."""
    _join_folders()
    return importlib.import_module(path)


def find(kind: Kind, name: str) -> ModuleType:
    """The module of a plug-in, its contract checked.

    Args:
        kind: what it shall be.
        name: a file of the kind's folder, a dotted path, or a file where the command was typed.

    Raises:
        UserError: there is none of that name, it can't be imported, or it lacks what it must define.
    """
    if (here := str(Path.cwd())) not in sys.path:  # a user's own package, where the command was typed
        sys.path.insert(0, here)
    _join_folders()
    path = _path(kind, name)
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


def _path(kind: Kind, name: str) -> str:
    """The dotted path that a name stands for."""
    if "." in name:
        return name
    path = f"{kind.folder}.{name}"
    if not _exists(path):
        return name if name.isidentifier() and Path(f"{name}.py").is_file() else path
    places = [Path(place, f"{name}.py") for place in importlib.import_module(kind.folder).__path__]
    _say_hidden(kind.flag, name, *[place for place in places if place.is_file()])
    return path


@cache
def _say_hidden(of: str, name: str, *files: Path) -> None:
    """Once: a plug-in may be found often."""
    if len(files) > 1:
        print(f"{of} {name}: {files[0]}, which hides {files[1]}", flush=True)


def _join_folders() -> None:
    """Let a package of ours and the folders of its name on the path be one, in the path's order.

    Python would take one of them and hide the other: the first that has an `__init__.py`.
    """
    for name in FOLDERS:
        if importlib.util.find_spec(name) is None:
            continue  # of another PC, which got what its trials need
        try:
            package = importlib.import_module(name)
        except Exception as error:
            where = getattr(importlib.util.find_spec(name), "origin", name)
            raise UserError(f"{where} can't be imported: {type(error).__name__}: {error}") from error
        if not hasattr(package, "__path__"):
            raise UserError(f"{package.__file__} hides {name}/ of this program: rename it")
        folders = [str(Path(entry, name).absolute()) for entry in [*sys.path, str(OUR_ROOT)]]
        joined = [*(folder for folder in folders if Path(folder).is_dir()), *package.__path__]
        package.__path__ = list(dict.fromkeys(joined))


def _no_such(kind: Kind, name: str) -> str:
    known, beside = choices(kind), _beside(name)
    if "." in name and beside and beside[0].startswith(f"{name.rpartition('.')[0]}."):
        listed = ", ".join(beside)
    else:
        listed = f"{', '.join(known)}, or a dotted path to a module of yours"
    hint = nearest(name, [*known, *beside])
    return f"{kind.flag} {name}: no such {kind.name}.{hint} Choices: {listed}."


def _beside(name: str) -> list[str]:
    """What a dotted path may have meant: a module of its package, else of any package here."""
    package = name.rpartition(".")[0]
    if package and _exists(package):
        try:
            spec = importlib.util.find_spec(package)
        except Exception:  # a package on the way to it raises
            return []
        places = spec.submodule_search_locations if spec else None
        return [f"{package}.{module}" for module in _public(places or [])]
    folders = sorted(path for path in Path.cwd().iterdir() if path.name.isidentifier() and path.is_dir())
    return [f"{folder.name}.{module}" for folder in folders for module in _public([str(folder)])]


def _public(places: Iterable[str]) -> list[str]:
    return [module.name for module in pkgutil.iter_modules(places) if not module.name.startswith("_")]


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
        return load(path)
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if path.split(".")[-1] in f.filename]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise UserError(
            f"{kind.flag} {name}: can't be imported: {type(error).__name__}: {error}{where}"
        ) from error


def _check_trainable(asked: str, module: ModuleType) -> None:
    if not dataclasses.is_dataclass(module.Params):
        raise UserError(f"{asked}: Params must be a dataclass, one field per hyperparameter")
    lacking = [
        field.name
        for field in dataclasses.fields(module.Params)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if lacking:
        raise UserError(f"{asked}: hyperparameters of Params without a default: {', '.join(lacking)}")
    if module.MODE not in get_args(Mode):
        raise UserError(f"{asked}: MODE {module.MODE!r} must be min or max")
    _check_preparation(asked, module)


PREPARES = ("PREPARE_PARAMS", "raw_items", "prepare")
"""What a trainable defines whose raw data is prepared once: all of it, or nothing."""


def _check_preparation(asked: str, module: ModuleType) -> None:
    lacking = [entry for entry in PREPARES if not hasattr(module, entry)]
    if len(lacking) == len(PREPARES):
        return
    if lacking:
        raise UserError(
            f"{asked}: {module.__file__} does not define {', '.join(lacking)} (a trainable whose data is "
            f"prepared defines {', '.join(PREPARES)}; one whose data is not, none of them)"
        )
    named = module.PREPARE_PARAMS
    if not isinstance(named, tuple | list) or not all(
        isinstance(hyperparameter, str) for hyperparameter in named
    ):
        raise UserError(f'{asked}: PREPARE_PARAMS {named!r} must be a tuple of names, as ("pixels",) or ()')
    fields = [field.name for field in dataclasses.fields(module.Params)]
    faults = [
        f"{asked}: PREPARE_PARAMS: {hyperparameter}: no such hyperparameter of Params.{nearest(hyperparameter, fields)}"
        for hyperparameter in named
        if hyperparameter not in fields
    ]
    faults += [
        f"{asked}: {name} must be a function" for name in PREPARES[1:] if not callable(getattr(module, name))
    ]
    if not _takes(module.build_data, 2):
        faults.append(
            f"{asked}: build_data must take two, build_data(params, prepared): where `prepare` is defined it "
            "gets the folder of the prepared data too"
        )
    if faults:
        raise UserError("\n".join(faults))


def _takes(function: object, count: int) -> bool:
    """Whether a function can be called with so many values, as far as it says."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # one of native code need not say
        return True
    return True


TRAINABLE = Kind(
    "trainable",
    "trainables",
    ("METRIC", "MODE", "Params", "build_model", "build_data"),
    "--trainable",
    _check_trainable,
)
