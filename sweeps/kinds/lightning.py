"""A file that builds a LightningModule and its data, as a trainable."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_args

from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import shortest
from sweeps.common.objective import Mode
from sweeps.common.param_types import defaults_of, hints_of
from sweeps.common.yaml_values import is_number, nearest
from sweeps.kinds.trainable import FileTrainable, LightningTrainable, Preparation, as_data_module

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule, LightningModule

DEFINES = ("METRIC", "MODE", "Params", "build_model", "build_data")
"""All defined by a file that builds a LightningModule."""
PREPARES = ("PREPARE_PARAMS", "raw_items", "prepare")
"""All defined by a file whose raw data is prepared once, or none."""
STATIC_METRICS = "static_metrics"


class LightningFile(FileTrainable, LightningTrainable):
    """A file with METRIC, MODE, Params, build_model and build_data, and what it may define beside them."""

    kind = "lightning"

    def __init__(self, name: str, module: Any) -> None:
        super().__init__(name, module)
        if "prepare" in self._defined:
            names = tuple(module.PREPARE_PARAMS)
            self.preparation = Preparation(names, module.raw_items, module.prepare)
        self.build_raw_data = self._defined.get("build_raw_data")

    @staticmethod
    def faults_of(module: Any) -> list[str]:
        if lacking := [entry for entry in DEFINES if not hasattr(module, entry)]:
            more = _misspelt(module, lacking)
            if not more and len(lacking) == len(DEFINES):
                more = ". A program that prints its metric is swept by --command"
            if not more and lacking == ["build_data"]:
                more = ". For a model with loaders of its own it returns None"
            return [
                f"{module.__file__} does not define {', '.join(lacking)} (a trainable defines "
                f"{', '.join(DEFINES)}, or a function train(params, trial)){more}"
            ]
        if faults := faults_of_params(module.Params):
            return faults
        if faults := faults_of_objective(module):
            return faults
        if STATIC_METRICS in vars(module) and not takes(module.static_metrics, 1):
            return [f"{STATIC_METRICS} must be a function of the hyperparameters, {STATIC_METRICS}(params)"]
        return _faults_of_preparation(module)

    def build_model(self, params: Any) -> LightningModule:
        model: LightningModule = self._module.build_model(params)
        return model

    def build_data(self, params: Any, prepared: Path | None) -> LightningDataModule:
        if self.preparation is not None and prepared is None:
            raise CannotTrain("this trainable reads prepared data, but no folder of prepared data was given")
        found = self._module.build_data(*((params,) if self.preparation is None else (params, prepared)))
        return as_data_module(found)

    def describe_data(self, params: Any) -> str:
        own = self._defined.get("describe_data")
        if own is None:
            return "" if self.preparation else f"as {self.name}.build_data has it"
        try:
            return str(own(params))
        except OSError as error:
            raise UserError(str(error)) from None

    def static_metrics(self, params: Any) -> dict[str, float]:
        own = self._defined.get(STATIC_METRICS)
        return {} if own is None else _finite(own(params))

    def trainer_options(self, params: Any) -> Mapping[str, Any]:
        own = self._defined.get("trainer_options")
        options: Mapping[str, Any] = {} if own is None else own(params)
        return options


def _misspelt(module: Any, lacking: Sequence[str]) -> str:
    """A function or a class of the file's own whose name is that of one that it lacks, but for a letter."""
    wanted = [*lacking, "train"] if "build_model" in lacking else lacking
    for name, each in vars(module).items():
        is_own = isinstance(each, type | FunctionType) and each.__module__ == module.__name__
        near = difflib.get_close_matches(name, wanted, n=1, cutoff=_NEAR) if is_own else []
        if near and name not in DEFINES:
            return f". It defines {name}: did you mean '{near[0]}'?"
    return ""


_NEAR = 0.8
"""Of two names that differ by a letter; `train_epoch` and `train` are less alike."""


def faults_of_objective(module: Any) -> list[str]:
    """What is wrong with METRIC and MODE of a file."""
    if not isinstance(module.METRIC, str):
        return [f"METRIC {module.METRIC!r} must be a text, the name of a metric; --metric takes several"]
    return [] if module.MODE in get_args(Mode) else [f"MODE {module.MODE!r} must be min or max"]


def faults_of_params(params: Any) -> list[str]:
    """What is wrong with the Params of a file."""
    if not dataclasses.is_dataclass(params):
        return ["Params must be a dataclass, one field per hyperparameter"]
    try:
        of: Any = params
        hints, defaults = hints_of(of), defaults_of(of)
    except Exception as error:  # of a default_factory, or of a type that only a type checker imports
        return [f"Params can't be read: {type(error).__name__}: {error}"]
    given = {name: default for name, default in defaults.items() if default is not dataclasses.MISSING}
    if lacking := [name for name in hints if name not in given and not hasattr(params, name)]:
        return [f"hyperparameters of Params without a default: {', '.join(lacking)}"]
    return []


def _faults_of_preparation(module: Any) -> list[str]:
    lacking = [entry for entry in PREPARES if entry not in vars(module)]
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
    faults += [f"{name} must be a function" for name in PREPARES[1:] if not callable(vars(module)[name])]
    if not takes(module.build_data, 2):
        faults.append(
            "build_data must take two arguments, build_data(params, prepared): the second is the folder "
            "of the prepared data"
        )
    return faults


def takes(function: object, count: int) -> bool:
    """Whether a function can be called with so many values."""
    if not callable(function):
        return False
    with suppress(ValueError):  # native code may have no signature
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            return False
    return True


def _finite(found: Any) -> dict[str, float]:
    """What `static_metrics` has returned, as finite numbers by name.

    Raises:
        CannotTrain: it returns something else.
    """
    if not isinstance(found, Mapping):
        raise CannotTrain(
            f"{STATIC_METRICS} must return a dict of numbers, such as {{'params_m': 1.2}}: {found!r}"
        )
    for name, value in found.items():
        if not isinstance(name, str) or not is_number(value):
            raise CannotTrain(f"{STATIC_METRICS}: {name} is {value!r}, and must be a finite number")
    return {name: shortest(float(value)) for name, value in found.items()}
