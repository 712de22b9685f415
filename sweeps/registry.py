"""Find a plug-in by name (`fashion_cnn`) or by dotted path (`my_project.model`).

A public module in one of the four folders is a plug-in; a new file is found, not listed.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from pathlib import Path
from types import ModuleType

from sweeps.config import UserError, flag, nearest

FOLDERS = {
    "trainable": "trainables",
    "search_space": "search_spaces",
    "searcher": "sweeps.searchers",
    "scheduler": "sweeps.schedulers",
}

CONTRACTS = {
    "trainable": ("METRIC", "MODE", "Params", "build_model", "build_data"),
    "search_space": (),
    "searcher": ("build", "SCHEDULERS", "TAKES"),
    "scheduler": ("build", "describe"),
}
"""The names that a plug-in of each kind must define; of SPACE and suggest, a space defines one."""


def choices(kind: str) -> list[str]:
    """The plug-ins of a kind that are shipped, by name."""
    package = importlib.import_module(FOLDERS[kind])
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in names if not name.startswith("_"))


def find(kind: str, name: str) -> ModuleType:
    """The module of a plug-in, its contract checked.

    Args:
        kind: trainable, search_space, searcher or scheduler.
        name: a file of the kind's folder, or a dotted path.

    Raises:
        UserError: there is none of that name, it can't be imported, or it lacks what it must define.
    """
    path = name if "." in name else f"{FOLDERS[kind]}.{name}"
    if (here := str(Path.cwd())) not in sys.path:  # a user's own package, where the command was typed
        sys.path.insert(0, here)
    if not _exists(path):
        known = choices(kind)
        raise UserError(
            f"{flag(kind)} {name}: no such {kind.replace('_', ' ')}.{nearest(name, known)} "
            f"Choices: {', '.join(known)}, or a dotted path to a module of yours."
        )
    module = _import(kind, name, path)
    lacking = [entry for entry in CONTRACTS[kind] if not hasattr(module, entry)]
    if lacking:
        raise UserError(
            f"{flag(kind)} {name}: {module.__file__} does not define {', '.join(lacking)} "
            f"(a {kind.replace('_', ' ')} defines {', '.join(CONTRACTS[kind])})"
        )
    if kind == "trainable":
        _check_trainable(name, module)
    if kind == "search_space":
        _check_space(name, module)
    return module


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


def _import(kind: str, name: str, path: str) -> ModuleType:
    try:
        return importlib.import_module(path)
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if path.split(".")[-1] in f.filename]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise UserError(
            f"{flag(kind)} {name}: can't be imported: {type(error).__name__}: {error}{where}"
        ) from error


def _check_trainable(name: str, module: ModuleType) -> None:
    if not dataclasses.is_dataclass(module.Params):
        raise UserError(f"--trainable {name}: Params must be a dataclass, one field per knob")
    lacking = [
        field.name
        for field in dataclasses.fields(module.Params)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if lacking:
        raise UserError(f"--trainable {name}: knobs of Params without a default: {', '.join(lacking)}")
    if module.MODE not in ("min", "max"):
        raise UserError(f"--trainable {name}: MODE {module.MODE!r} must be min or max")


def _check_space(name: str, module: ModuleType) -> None:
    defined = [entry for entry in ("SPACE", "suggest") if hasattr(module, entry)]
    if len(defined) != 1:
        raise UserError(
            f"--search-space {name}: {module.__file__} defines {' and '.join(defined) or 'neither'}; a "
            "search space defines either SPACE = {knob: domain} or a function suggest(trial)"
        )
    if defined == ["suggest"] and not callable(module.suggest):
        raise UserError(f"--search-space {name}: suggest must be a function of a trial, suggest(trial)")
