"""A trainable: what a sweep or a single run trains, of whichever kind."""

from __future__ import annotations

import importlib
import keyword
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sweeps.common.errors import CannotTrain, UserError, reason_of, refuse
from sweeps.common.formatting import count
from sweeps.common.objective import Objective
from sweeps.common.param_types import hints_of, plain_defaults
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import source_files, trainer_options
from sweeps.kinds.source_files import Source

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule, LightningModule

Precision = Literal["auto", "32", "16-mixed", "bf16-mixed", "64"]
IN_LIGHTNING = {"32": "32-true", "64": "64-true"}
"""Precisions that Lightning has by another name."""


@dataclass(frozen=True)
class Description:
    """All that another process, also on another PC, needs to make a trainable again."""

    kind: str
    """One of `registry.LOADERS`."""
    name: str
    """As it was given to the command."""
    content: str
    """What the kind makes it of: the dotted path of a file, or settings as JSON."""


@dataclass(frozen=True)
class SpaceFile:
    """A search space as a file defines it: SPACE, or suggest(trial)."""

    name: str
    """The dotted path of the file."""
    source: Source
    """Its name and its file."""
    ranges: Any = None
    """SPACE."""
    suggest: Callable[[Any], Any] | None = None
    prior: Any = None
    """PRIOR, where good values are believed to be."""

    @classmethod
    def of(cls, module: ModuleType) -> Self:
        """That of a file that defines one."""
        own, source = vars(module), source_files.source_of(module)
        return cls(module.__name__, source, own.get("SPACE"), own.get("suggest"), own.get("PRIOR"))


@dataclass(frozen=True)
class Preparation:
    """How the raw data of a trainable is prepared, once for all trials."""

    params: tuple[str, ...]
    """Hyperparameters that prepared rows depend on."""
    raw_items: Callable[[Any], Mapping[str, Sequence[Path]]]
    prepare: Callable[[Path, Any], Any]


class Trainable(ABC):
    """What is trained, of any kind. All that a kind need not have has a default here.

    Args:
        description: of it.
        params_class: a dataclass with a field for each hyperparameter; None: it takes those of its space.
        objective: by which its epochs are compared unless another one is given; None: one must be given.
    """

    space: SpaceFile | None = None
    """In its own file."""
    prior: Any = None
    """PRIOR of its own file."""
    preparation: Preparation | None = None
    rest: str = ""
    """For the plan: where the hyperparameters that are not named have their values."""
    groups: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Hyperparameters by which it has other ones, each with its values."""
    without_default: Sequence[str] = ()
    """Hyperparameters that only its space gives."""
    own_names: Sequence[str] = ()
    """That one of these may have been meant for."""

    def __init__(self, description: Description, params_class: Any, objective: Objective | None) -> None:
        self.description, self.params_class, self.objective = description, params_class, objective

    @property
    def name(self) -> str:
        """As it was given to the command."""
        return self.description.name

    @property
    def called(self) -> str:
        """What trains, as messages name it."""
        return self.name

    @property
    def prepare_params(self) -> tuple[str, ...]:
        """Hyperparameters that prepared rows depend on."""
        return () if self.preparation is None else self.preparation.params

    @property
    def saves(self) -> bool:
        """Whether its trainings write checkpoints, so that a trial can be paused and continued."""
        return True

    @abstractmethod
    def sources(self) -> Sequence[Source]:
        """Dotted name and file of each module of the project that trains."""

    def settings_files(self) -> Mapping[str, str]:
        """Name to content: what takes the place of its files of settings in a record and on another PC."""
        return {}

    def kept_files(self) -> Mapping[str, bytes]:
        """Name to content: what its sweep's folder holds, so that another process finds it by its name."""
        return {}

    def notes(self) -> Sequence[tuple[str, str]]:
        """Titled lines for the plan."""
        return ()

    def defaults(self) -> dict[str, ParamValue]:
        """The defaults of its hyperparameters, of those that have one of its own.

        Raises:
            CannotTrain: they are no point of the sweep.
        """
        found = plain_defaults(self.params_class)
        return {name: value for name, value in found.items() if name not in self.without_default}

    def note_on_more_epochs(self) -> str:
        """What can't be known of a training that goes on for more epochs than it was begun with."""
        return ""

    def hyperparameters_with(self, chosen: Mapping[str, Any]) -> Collection[str]:
        """Those that it has with these values of its `groups`."""
        return hints_of(self.params_class)

    def describe_data(self, params: Any) -> str:
        """Its data in a line; "" where nothing is known of it.

        Raises:
            UserError: the data is missing.
        """
        return ""

    def static_metrics(self, params: Any) -> dict[str, float]:
        """What is known of a trial before it trains, such as the size of its model.

        Raises:
            CannotTrain: they are not finite numbers by name.
        """
        return {}

    def fit_settings(self, params: Any) -> Mapping[str, Any]:
        """Settings of FitConfig that its own code or files give.

        Raises:
            CannotTrain: they can't be taken.
        """
        return {}

    def faults_of_options(self, params: Any) -> list[str]:
        """What it can't be trained with of what its own code sets, for some hyperparameters."""
        return []

    def faults_of_settings(self, given: Collection[str]) -> list[str]:
        """Settings that it does not take, of the names of those that do not have their default."""
        return []

    def why_not(self, path: str) -> str:
        """Why a setting is no hyperparameter; "" where it is one, or where there is none."""
        return ""

    def export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        """The files with which the project's own program trains a trial, by their names.

        Args:
            values: hyperparameters.
            fit: settings of FitConfig.
            folder: where the files will be.
        """
        return {}


class FileTrainable(Trainable):
    """One that a file of the project defines: METRIC and MODE, Params, SPACE or `suggest`, and PRIOR.

    Args:
        name: as it was given to the command.
        module: the imported file, in which `faults_of` finds nothing.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, module: Any) -> None:
        self._module, self._defined = module, vars(module)
        own = self._defined
        params_class = own["Params"] if "Params" in own else params_of_names(own["SPACE"])
        objective = Objective(module.METRIC, module.MODE) if "METRIC" in own else None
        super().__init__(Description(self.kind, name, module.__name__), params_class, objective)
        if {"SPACE", "suggest"} & own.keys():
            self.space = SpaceFile.of(module)
        self.prior = own.get("PRIOR")
        if "Params" not in own:
            self.without_default = tuple(own["SPACE"])

    @staticmethod
    @abstractmethod
    def faults_of(module: Any) -> list[str]:
        """What breaks the contract in an imported file."""

    @classmethod
    def load(cls, description: Description) -> Self:
        """The same in another process."""
        return cls(description.name, importlib.import_module(description.content))

    def sources(self) -> Sequence[Source]:
        return [source_files.source_of(self._module)]


def params_of_names(names: Iterable[str]) -> type:
    """Params where there are only names, as those of a space.

    Raises:
        UserError: one is none for Python.
    """
    names = tuple(names)
    bad = [name for name in names if not str(name).isidentifier() or keyword.iskeyword(str(name))]
    refuse([f"space: {name!r} is no name of a hyperparameter, such as lr" for name in bad])
    fields = [(name, Any, field(default=None)) for name in names]
    return make_dataclass("Params", fields, frozen=True, kw_only=True)


class LightningTrainable(Trainable):
    """One that trains a LightningModule: a few steps of it can be trained alone, and its checkpoints have the
    weights of the best epoch."""

    build_raw_data: Callable[[Any, int], LightningDataModule] | None = None
    """Of params and a number of loader workers: the same rows from raw data."""

    def faults_of_options(self, params: Any) -> list[str]:
        asked = f"--trainable {self.name}"
        try:
            trainer_options.checked(self.trainer_options(params))
        except CannotTrain as error:
            return [f"{asked}: {line}" for line in str(error).splitlines()]
        except Exception as error:  # it is the user's code
            return [f"{asked}: trainer_options raises {reason_of(error)}"]
        return []

    @abstractmethod
    def build_model(self, params: Any) -> LightningModule: ...

    @abstractmethod
    def build_data(self, params: Any, prepared: Path | None) -> LightningDataModule:
        """The data of a trial.

        Args:
            params: an instance of its Params.
            prepared: the folder of prepared data, for one with a preparation.

        Raises:
            CannotTrain: it needs a folder, and there is none.
        """

    def fit_settings(self, params: Any) -> Mapping[str, Any]:
        trainer_options.checked(options := self.trainer_options(params))
        return trainer_options.validation_of(options)

    def trainer_options(self, params: Any) -> Mapping[str, Any]:
        """Settings of Lightning's Trainer beside those of this program, as they are given."""
        return {}


def as_lightning(trainable: Trainable) -> LightningTrainable:
    """A trainable, for what can be done with a LightningModule alone.

    Raises:
        UserError: it trains none.
    """
    if isinstance(trainable, LightningTrainable):
        return trainable
    kind = trainable.description.kind
    raise UserError(f"{trainable.name}: a LightningModule is needed here, and this is a {kind}")


class OtherData(LightningTrainable):
    """A trainable with other data, and without options of the Trainer.

    Args:
        own: the trainable.
        batch_rows: rows of a batch; None: its own.
        raw_workers: loader workers that read raw data; None: its own data.
    """

    def __init__(
        self, own: LightningTrainable, batch_rows: int | None, raw_workers: int | None = None
    ) -> None:
        super().__init__(own.description, own.params_class, own.objective)
        self._own, self._batch_rows, self._raw_workers = own, batch_rows, raw_workers

    def sources(self) -> Sequence[Source]:
        return self._own.sources()

    def build_model(self, params: Any) -> LightningModule:
        return self._own.build_model(params)

    def build_data(self, params: Any, prepared: Path | None) -> LightningDataModule:
        data: LightningDataModule
        if self._raw_workers is not None and self._own.build_raw_data is not None:
            data = as_data_module(self._own.build_raw_data(params, self._raw_workers))
        else:
            data = self._own.build_data(params, prepared)
        if self._batch_rows is not None:
            data.batch_size = self._batch_rows  # type: ignore[attr-defined]  # of the user's class
        return data


PARTS = ("train", "val", "test")
"""The rows of which a data module has loaders."""


def data_module_of(parts: Iterable[str], loader_of: Callable[[str], Any]) -> LightningDataModule:
    """A data module of the loaders of some of PARTS; it lacks the methods of the others."""
    from lightning.pytorch import LightningDataModule

    def method(part: str) -> Callable[[Any], Any]:
        return lambda self: loader_of(part)

    methods = {f"{part}_dataloader": method(part) for part in parts}
    return type("Loaders", (LightningDataModule,), methods)()  # type: ignore[no-any-return]


def as_data_module(found: Any) -> LightningDataModule:
    """What a user's function has returned as its data: a data module, None for a model that has its own
    loaders, or the loaders of the training, the validation and, maybe, the test rows.

    Raises:
        CannotTrain: it is another number of loaders.
    """
    if isinstance(found, list | tuple):
        if not 2 <= len(found) <= 3:
            raise CannotTrain(
                f"the data is {count(len(found), 'loader')}: give those of the training and the validation "
                "rows, and maybe of the test rows"
            )
        of_part = dict(zip(PARTS, found, strict=False))
        found = data_module_of(of_part, of_part.__getitem__)
    data: LightningDataModule = found
    return data
