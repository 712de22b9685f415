"""What a program or a notebook trains without a file of its own: a function, or a model and its data.

    sweeps.run(train, space={...})                 # train(params, trial)
    sweeps.run(Net, data=make_data, space={...})   # Net(lr=...), make_data(batch_size=...)

It is pickled by value, with all that it uses of its program: the processes of trials are others, and so is
one that resumes the sweep or trains its best trial again. The pickle is a file in the sweep's folder.
"""

from __future__ import annotations

import base64
import copy
import inspect
import pickle
import platform
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, make_dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar

from sweeps.common import imports, project
from sweeps.common.errors import CannotTrain, UserError, reason_of
from sweeps.common.formatting import command, shown_path
from sweeps.common.param_types import members
from sweeps.kinds.function import FunctionTrainable, Trial
from sweeps.kinds.source_files import Source
from sweeps.kinds.trainable import (
    Description,
    LightningTrainable,
    Trainable,
    as_data_module,
    params_of_names,
)

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule, LightningModule

PREFIX = "python"
"""Of the name, as in `python:train`."""
FILE = "trainable.pkl"
"""In the folder of a sweep."""
REST = inspect.Parameter.VAR_KEYWORD
"""The kind of `**others`."""
PLAIN = (bool, int, float, str, NoneType)
"""Types of hyperparameters that are told from each other."""


@dataclass(frozen=True, kw_only=True)
class Pickled:
    """An object of a program, with all that it uses of it."""

    name: str
    """`python:train`"""
    is_function: bool
    content: bytes
    """Of a dict with `train`, a function or a class, and `data`."""
    texts: Mapping[str, str]
    """Name to source or value: of the object and of all that it uses of its program."""
    modules: Sequence[Source]
    """Of the project, which it imports."""
    paths: Sequence[str]
    """Folders in which the program finds its own modules."""
    saves: bool
    names: Sequence[str]
    """Hyperparameters that were given to the sweep."""
    arguments: Mapping[str, Sequence[inspect.Parameter]] = field(default_factory=dict)
    """Those of the class, and of `data` where that is called."""
    data: str = ""
    """The data in words."""
    python: str = field(default_factory=platform.python_version)
    """The version that has pickled it."""

    @cached_property
    def as_text(self) -> str:
        """All of it, for a description."""
        return base64.b64encode(pickle.dumps(self)).decode()

    def objects(self) -> dict[str, Any]:
        """A new copy of the objects.

        Raises:
            CannotTrain: this process can't make them.
        """
        sys.path += [path for path in self.paths if path not in sys.path]
        try:
            with imports.of_users():
                found: dict[str, Any] = pickle.loads(self.content)
        except UserError:
            raise
        except Exception as error:  # whatever the import of a module raises, or code of another Python
            here = platform.python_version()
            raise CannotTrain(
                f"{self.name} was pickled by Python {self.python} and can't be made again by Python {here} "
                f"({reason_of(error)}). Resume the sweep where it was begun, with "
                "sweeps.run(..., resume=NAME), which takes the function anew"
            ) from None
        return found


_held: dict[str, Pickled] = {}
"""Those that were handed to this process, by name."""


def hold(pickled: Pickled) -> None:
    """Let `find` find it by its name in this process."""
    _held[pickled.name] = pickled


def read(folder: Path) -> Pickled:
    """The one in the folder of a sweep.

    Raises:
        UserError: it can't be read.
    """
    try:
        found = pickle.loads((folder / FILE).read_bytes())
    except Exception as error:  # pickle raises anything at a file that is none
        raise UserError(f"{shown_path(folder / FILE)} can't be read ({reason_of(error)})") from None
    if not isinstance(found, Pickled):
        raise UserError(f"{shown_path(folder / FILE)} holds no function and no model of sweeps.run")
    return found


def find(name: str) -> Trainable:
    """The trainable of a name: one that was handed to this process, or that of the sweep whose settings are
    used.

    Raises:
        UserError: there is none.
    """
    if (known := _held.get(name)) is None:
        if (folder := project.results_used()) is None or not (folder / FILE).is_file():
            raise UserError(
                f"{name}: what Python code has handed to a sweep is in the folder of that sweep alone "
                f"({FILE}). Name the sweep, as in {command('fit', '--params', 'NAME')}, or give the function "
                "to sweeps.run in Python"
            )
        known = read(folder)
    return made(known)


def load(description: Description) -> Trainable:
    """The trainable of a description, in any process."""
    return made(pickle.loads(base64.b64decode(description.content)))


def made(pickled: Pickled) -> Trainable:
    """The trainable."""
    return PickledFunction(pickled) if pickled.is_function else PickledModule(pickled)


class _OfPickle(Trainable):
    """What both have in common."""

    kind: ClassVar[str]

    def __init__(self, pickled: Pickled, params_class: type) -> None:
        self.pickled = pickled
        super().__init__(Description(self.kind, pickled.name, pickled.as_text), params_class, None)

    @property
    def called(self) -> str:
        return self.name.partition(":")[2]

    def sources(self) -> Sequence[Source]:
        return self.pickled.modules

    def settings_files(self) -> Mapping[str, str]:
        return {f"{name} of {self.name}": text for name, text in self.pickled.texts.items()}

    def kept_files(self) -> Mapping[str, bytes]:
        return {FILE: pickle.dumps(self.pickled)}


class PickledFunction(_OfPickle, FunctionTrainable):
    """A function `train(params, trial)`; its hyperparameters are those that were given to the sweep."""

    kind = "function in Python"

    def __init__(self, pickled: Pickled) -> None:
        super().__init__(pickled, params_of_names(pickled.names))
        self.without_default = pickled.names

    @property
    def saves(self) -> bool:
        return self.pickled.saves

    def train(self, params: Any, trial: Trial) -> object:
        # A copy for each trial of this process: what it changes of the program's variables stays in it.
        return self.pickled.objects()["train"](params, trial)


class PickledModule(_OfPickle, LightningTrainable):
    """A class of LightningModules, with data; both are called with the hyperparameters that they name.

    What is no class and no function is the data itself: a LightningDataModule, or the loaders of the training
    and of the validation rows.
    """

    kind = "LightningModule in Python"

    def __init__(self, pickled: Pickled) -> None:
        defaults = _defaults(pickled)
        hints = {each.name: each.annotation for of in pickled.arguments.values() for each in of}
        fields = [
            (name, hints.get(name, Any), field(default=None if default is MISSING else default))
            for name, default in defaults.items()
        ]
        super().__init__(pickled, make_dataclass("Params", fields, frozen=True, kw_only=True))
        self.without_default = [name for name, default in defaults.items() if default is MISSING]

    @cached_property
    def _objects(self) -> dict[str, Any]:
        return self.pickled.objects()

    def build_model(self, params: Any) -> LightningModule:
        vars(self).pop("_objects", None)  # a copy for each trial, also of the variables that it changes
        model: LightningModule = self._called("train", params)
        return model

    def build_data(self, params: Any, prepared: Path | None) -> LightningDataModule:
        if "data" in self.pickled.arguments:
            found = self._called("data", params)
        else:
            found = copy.deepcopy(self._objects.get("data"))  # trials share nothing
        return as_data_module(found)

    def describe_data(self, params: Any) -> str:
        return self.pickled.data

    def _called(self, which: str, params: Any) -> Any:
        arguments, values = self.pickled.arguments[which], vars(params)
        names = {each.name for each in arguments if each.kind is not REST}
        if len(names) < len(arguments):  # it has **others
            named = {each.name for of in self.pickled.arguments.values() for each in of}
            names |= {*self.pickled.names} - named
        return self._objects[which](**{name: value for name, value in values.items() if name in names})


def arguments_of(called: Any) -> list[inspect.Parameter]:
    """The arguments of a class or a function that can be hyperparameters, with the types that count.

    Raises:
        TypeError, ValueError: it can't be called, or does not say how.
    """
    try:
        hints = typing.get_type_hints(vars(called).get("__init__") if isinstance(called, type) else called)
    except Exception:  # of a type that only a type checker imports
        hints = {}
    found = []
    for each in inspect.signature(called).parameters.values():
        is_named = each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        if each.kind is REST or (is_named and (each.default is each.empty or type(each.default) in PLAIN)):
            is_plain = all(member in PLAIN for member in members(hints.get(each.name, Any)))
            found.append(each.replace(annotation=hints[each.name] if is_plain else Any))
    return found


def _defaults(pickled: Pickled) -> dict[str, Any]:
    """The hyperparameters with their defaults; MISSING of one that has none, or two."""
    found: dict[str, Any] = {}
    every = [each for arguments in pickled.arguments.values() for each in arguments]
    for each in every:
        default = MISSING if each.default is each.empty else each.default
        if each.kind is not REST:
            found[each.name] = default if found.get(each.name, default) == default else MISSING
    if any(each.kind is REST for each in every):
        found = {**dict.fromkeys(pickled.names, MISSING), **found}
    return found
