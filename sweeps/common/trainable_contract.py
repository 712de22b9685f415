"""The contract of a trainable, and the errors of one that breaks it."""

from __future__ import annotations

import dataclasses
import inspect
from contextlib import suppress
from types import ModuleType
from typing import Any, get_args

from sweeps.common.errors import UserError
from sweeps.common.objective import Mode
from sweeps.common.param_types import defaults_of, hints_of
from sweeps.common.static_metrics import FUNCTION
from sweeps.common.yaml_values import nearest

DEFINES = ("METRIC", "MODE", "Params", "build_model", "build_data")
PREPARES = ("PREPARE_PARAMS", "raw_items", "prepare")
"""All defined by a trainable whose raw data is prepared once, or none."""


def check(asked: str, module: ModuleType) -> None:
    """Check a trainable that defines all of DEFINES.

    Args:
        asked: begins each message, as `--trainable fashion_cnn`.
        module: the trainable.

    Raises:
        UserError: it breaks the contract.
    """
    if not dataclasses.is_dataclass(module.Params):
        raise UserError(f"{asked}: Params must be a dataclass, one field per hyperparameter")
    try:
        of: Any = module.Params
        hints, defaults = hints_of(of), defaults_of(of)
    except Exception as error:  # of a default_factory, or of a type that only a type checker imports
        raise UserError(f"{asked}: Params can't be read: {type(error).__name__}: {error}") from None
    given = {name: default for name, default in defaults.items() if default is not dataclasses.MISSING}
    lacking = [name for name in hints if name not in given and not hasattr(module.Params, name)]
    if lacking:
        raise UserError(f"{asked}: hyperparameters of Params without a default: {', '.join(lacking)}")
    if module.MODE not in get_args(Mode):
        raise UserError(f"{asked}: MODE {module.MODE!r} must be min or max")
    if hasattr(module, FUNCTION) and not _takes(getattr(module, FUNCTION), 1):
        raise UserError(f"{asked}: {FUNCTION} must be a function of the hyperparameters, {FUNCTION}(params)")
    if faults := _faults_of_preparation(module):
        raise UserError("\n".join(f"{asked}: {fault}" for fault in faults))


def _faults_of_preparation(module: ModuleType) -> list[str]:
    lacking = [entry for entry in PREPARES if not hasattr(module, entry)]
    if len(lacking) == len(PREPARES):
        return []
    if lacking:
        return [
            f"{module.__file__} does not define {', '.join(lacking)} (a trainable with prepared data "
            f"defines {', '.join(PREPARES)}; one without, none of them)"
        ]
    named = module.PREPARE_PARAMS
    if not isinstance(named, tuple | list) or not all(isinstance(name, str) for name in named):
        return [f'PREPARE_PARAMS {named!r} must be a tuple of names, such as ("pixels",) or ()']
    fields = [field.name for field in dataclasses.fields(module.Params)]
    faults = [
        f"PREPARE_PARAMS: {name}: no such hyperparameter of Params.{nearest(name, fields)}"
        for name in named
        if name not in fields
    ]
    faults += [f"{name} must be a function" for name in PREPARES[1:] if not callable(getattr(module, name))]
    if not _takes(module.build_data, 2):
        faults.append(
            "build_data must take two arguments, build_data(params, prepared): the second is the folder "
            "of the prepared data"
        )
    return faults


def _takes(function: object, count: int) -> bool:
    """Whether a function can be called with so many values."""
    if not callable(function):
        return False
    with suppress(ValueError):  # native code may have no signature
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            return False
    return True
