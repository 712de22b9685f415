"""What a trainable must define, and what is wrong with one that does not."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from types import ModuleType
from typing import get_args

from sweeps.common.errors import UserError
from sweeps.common.objective import Mode
from sweeps.common.yaml_values import nearest

DEFINES = ("METRIC", "MODE", "Params", "build_model", "build_data")
PREPARES = ("PREPARE_PARAMS", "raw_items", "prepare")
"""What a trainable defines whose raw data is prepared once: all of it, or nothing."""


def check(asked: str, module: ModuleType) -> None:
    """Check a trainable that defines all of DEFINES.

    Args:
        asked: how it was asked for, as `--trainable fashion_cnn`; begins each message.
        module: the trainable.

    Raises:
        UserError: it breaks the contract.
    """
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
    if faults := _faults_of_preparation(module):
        raise UserError("\n".join(f"{asked}: {fault}" for fault in faults))


def _faults_of_preparation(module: ModuleType) -> list[str]:
    if hasattr(module, "PREPARE_KNOBS"):
        return [
            f"{module.__file__}: PREPARE_KNOBS is called PREPARE_PARAMS now: rename it. Data that is "
            "prepared is found"
        ]
    lacking = [entry for entry in PREPARES if not hasattr(module, entry)]
    if len(lacking) == len(PREPARES):
        return []
    if lacking:
        return [
            f"{module.__file__} does not define {', '.join(lacking)} (a trainable whose data is prepared "
            f"defines {', '.join(PREPARES)}; one whose data is not, none of them)"
        ]
    named = module.PREPARE_PARAMS
    if not isinstance(named, tuple | list) or not all(isinstance(name, str) for name in named):
        return [f'PREPARE_PARAMS {named!r} must be a tuple of names, as ("pixels",) or ()']
    fields = [field.name for field in dataclasses.fields(module.Params)]
    faults = [
        f"PREPARE_PARAMS: {name}: no such hyperparameter of Params.{nearest(name, fields)}"
        for name in named
        if name not in fields
    ]
    faults += [f"{name} must be a function" for name in PREPARES[1:] if not callable(getattr(module, name))]
    if not _takes(module.build_data, 2):
        faults.append(
            "build_data must take two, build_data(params, prepared): where `prepare` is defined it "
            "gets the folder of the prepared data too"
        )
    return faults


def _takes(function: object, count: int) -> bool:
    """Whether a function can be called with so many values, as far as its signature says."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # one of native code need not say
        return True
    return True


FACE = ("CannotTrain", "Columns", "ParquetDataModule", "Rows", "data_dir", "seed_of_run")
"""Names that a trainable imports from `sweeps.training`; the package was called `training` once."""


def new_import(error: Exception, line: str) -> str:
    """What a failed import of the former package `training` must read now; "" for any other error."""
    former = error.name if isinstance(error, ModuleNotFoundError) else None
    if former is None or former.partition(".")[0] != "training":
        return ""
    try:
        statement = ast.parse(line.strip()).body[0]
    except (SyntaxError, IndexError):
        statement = None
    names = [alias.name for alias in statement.names] if isinstance(statement, ast.ImportFrom) else []
    if names and set(names) <= set(FACE):
        return f"from sweeps.training import {', '.join(names)}"
    return f"from sweeps.training import ... (one of {', '.join(FACE)})"
