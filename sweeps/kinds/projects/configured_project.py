"""A project that is configured by files, as a trainable: what all kinds of projects have in common.

Its own program is run until it has told its settings, as a tree. The paths of the tree are the
hyperparameters. In a trial the program is run again, with other values, until it has built the model.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import yaml

from sweeps.common import project
from sweeps.common.formatting import short
from sweeps.common.objective import Objective
from sweeps.common.settings import flag
from sweeps.kinds import trainer_options
from sweeps.kinds.projects import settings_tree
from sweeps.kinds.projects.project_program import Built
from sweeps.kinds.source_files import Source
from sweeps.kinds.trainable import (
    IN_LIGHTNING,
    PARTS,
    Description,
    LightningTrainable,
    Precision,
    data_module_of,
)

SWEPT_OF_TRAINER = (
    "accumulate_grad_batches",
    "gradient_clip_algorithm",
    "gradient_clip_val",
    "limit_train_batches",
    "limit_val_batches",
)
"""Settings of the Trainer that are hyperparameters."""
RUN_SETTINGS = ("ckpt_path", "weights_only")
"""Settings beside the seed and those of the Trainer that this program sets."""
PRECISIONS: Mapping[str, Precision] = {
    **dict.fromkeys(("16", "16-mixed"), "auto"),
    **dict.fromkeys(("bf16", "bf16-mixed"), "bf16-mixed"),
    **dict.fromkeys(("32", "32-true"), "32"),
    **dict.fromkeys(("64", "64-true"), "64"),
}
"""Of Lightning's precisions, as a project gives them, those of FitConfig."""
MONITORS = ("ModelCheckpoint", "EarlyStopping")
"""Callbacks that name the metric of a project."""


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """The settings of a project: all that another process, also on another PC, needs to build a trial."""

    program: str
    """Module of the project's own program; "" where the settings are all that is needed."""
    tree: Mapping[str, Any]
    """With all defaults; references to other settings are not resolved."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Without defaults: where a class is another one, it gets these arguments alone."""
    computed: Mapping[str, Any] = field(default_factory=dict)
    """What the program sets itself, by path."""
    resolves: bool = False
    """Whether references are to be resolved for the program."""
    folder: str = ""
    """In which the command was typed."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment, to which the settings refer."""


class ConfiguredProject(LightningTrainable):
    """A project that is configured by files, with its settings.

    Args:
        name: as it was given to the command.
        settings: of the project.
        files: of the settings, relative to the project's folder; () in another process, which checks nothing.
    """

    kind: str
    """Its name in `registry.LOADERS`, the prefix of the names of its trainables."""
    class_key: str
    """Key of the class of an object in the settings."""
    callbacks_path: str
    """Where the settings have the callbacks."""
    seed: str
    """Key of the seed."""
    not_swept: tuple[str, ...]
    """Sections that say where files are, or of which only a part is swept."""
    best_file: str
    """Name of the file of settings in best/."""
    may_lack: Collection[str] = ()
    """Hyperparameters that a trial has only where they are given."""
    own_trainer: str = ""
    """Name of the project's own class of the Trainer; "" where it has Lightning's."""

    def __init__(self, name: str, settings: ProjectSettings, files: Sequence[str] = ()) -> None:
        self.settings, self.tree, self.files = settings, settings.tree, tuple(files)
        params_class = settings_tree.params_class(self.hyperparameters, self.check, self.may_lack)
        description = Description(self.kind, name, settings_tree.to_json(asdict(settings)))
        super().__init__(description, params_class, self._monitored())
        self.rest = f"the rest as {self._has_it}"
        self._last: tuple[Any, Any, dict[str, Any]] = (None, None, {})
        """Params of the last model, its data module and its options of the Trainer."""

    @classmethod
    def load(cls, description: Description) -> Self:
        """The same in another process, whose PC may not have the files and the environment; the driver has
        checked its values."""
        return cls(description.name, ProjectSettings(**settings_tree.of_json(description.content)))

    @abstractmethod
    def check(self, values: Mapping[str, Any]) -> None:
        """Raise a ValueError where values do not fit."""

    @abstractmethod
    def build(self, tree: dict[str, Any]) -> Built:
        """Build the objects of a trial with these settings."""

    def build_with(self, values: Mapping[str, Any]) -> Built:
        """Build the objects of a trial with these hyperparameters."""
        return self.build(self.tree_with(values))

    @abstractmethod
    def words(self, folder: str) -> str:
        """The command with which the project's own program trains with the file in this folder."""

    def fit_settings(self, params: Any) -> dict[str, Any]:
        precision = PRECISIONS.get(str(self.trainer.get("precision")), "auto")
        return {"precision": precision, **trainer_options.validation_of(self.trainer)}

    def completed(self, tree: dict[str, Any]) -> Mapping[str, Any]:
        """Settings as the project's own program takes them."""
        return tree

    def tree_with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with other hyperparameters."""
        return settings_tree.with_values(self.tree, self.settings.given, values)

    @property
    def trainer(self) -> Mapping[str, Any]:
        """Settings of the Trainer."""
        return self.tree.get("trainer") or {}

    @cached_property
    def callbacks(self) -> dict[str, Mapping[str, Any]]:
        """Key to settings of each callback."""
        found = settings_tree.value_or_none(self.tree, self.callbacks_path) or {}
        items = enumerate(found) if isinstance(found, list) else found.items()
        return {str(key): each for key, each in items if isinstance(each, Mapping) and self.class_key in each}

    @cached_property
    def taken_callbacks(self) -> dict[str, Mapping[str, Any]]:
        """Those that a trial has."""
        return {key: each for key, each in self.callbacks.items() if not self._why_owned(each)}

    def _why_owned(self, callback: Mapping[str, Any]) -> str:
        """Why a trial does not have a callback; "" where it has it."""
        module, _, name = str(callback.get(self.class_key)).rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name) if module else None
        except (ImportError, AttributeError):
            return ""
        return trainer_options.why_owned(found) if isinstance(found, type) else ""

    @cached_property
    def hyperparameters(self) -> dict[str, Any]:
        """Path to value."""
        left_out = (self.seed, "trainer", *RUN_SETTINGS, *self.not_swept)
        kept = {name: each for name, each in self.tree.items() if each is not None and name not in left_out}
        kept["trainer"] = {name: self.trainer[name] for name in SWEPT_OF_TRAINER if name in self.trainer}
        places = settings_tree.leaves(self.taken_callbacks, tuple(self.callbacks_path.split(".")))
        return {
            path: value
            for path, value in (*settings_tree.leaves(kept), *places)
            if not settings_tree.is_reference(value)
            and path not in self.settings.computed
            and settings_tree.has(self.tree, path)
        }

    def _monitored(self) -> Objective | None:
        """What its callbacks monitor; None where nothing is."""
        for name in MONITORS:
            for each in self.callbacks.values():
                own = each.get(settings_tree.ARGUMENTS) or each
                if str(each[self.class_key]).endswith(f".{name}") and isinstance(own.get("monitor"), str):
                    return Objective(own["monitor"], "max" if own.get("mode") == "max" else "min")
        return None

    def export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        tree = self.tree_with(values)
        own = tree.get("trainer") or {}
        trainer = {name: value for name, value in own.items() if name not in trainer_options.VALIDATION}
        trainer |= _epochs_of(fit)
        if (precision := fit.get("precision", "auto")) != "auto":
            trainer["precision"] = IN_LIGHTNING.get(precision, precision)
        accumulation = trainer.get("accumulate_grad_batches") or 1
        if steps := fit.get("epoch_steps"):
            trainer["limit_train_batches"] = steps * accumulation
        if isinstance(batches := trainer.get("val_check_interval"), int):
            trainer |= {"max_epochs": -1, "max_steps": fit["max_epochs"] * batches // accumulation}
        seed = {self.seed: fit["seed"]} if self.seed in tree else {}
        text = yaml.safe_dump(self.completed({**tree, "trainer": trainer, **seed}), sort_keys=False)
        return {self.best_file: f"# Train it again: {self.words(folder)}\n{text}"}

    def describe_data(self, params: Any) -> str:
        return f"as {self._has_it}"

    def build_model(self, params: Any) -> Any:
        built = self.build_with(vars(params))
        options = {name: built.trainer[name] for name in trainer_options.FREE if name in built.trainer}
        listed = trainer_options.callbacks_of(options)
        options["callbacks"] = [each for each in listed if not trainer_options.why_owned(type(each))]
        self._last = params, _loaders_of(built.model) if built.data is None else built.data, options
        return built.model

    def build_data(self, params: Any, prepared: Path | None) -> Any:
        """The data module that was built together with the model."""
        if self._last[0] is not params:
            self.build_model(params)
        data = self._last[1]
        self._last = params, None, self._last[2]
        return data

    def trainer_options(self, params: Any) -> dict[str, Any]:
        """Of the Trainer that the project would make with the last model; {} for other params, as on the
        driver, which builds none."""
        built_with, _, options = self._last
        return options if built_with is params else {}

    def notes(self) -> list[tuple[str, str]]:
        """What becomes of the settings of the Trainer."""
        import inspect

        import lightning.pytorch as pl

        kept, overruled = [], []
        for name, parameter in inspect.signature(pl.Trainer).parameters.items():
            value = self.trainer.get(name)
            if name == "callbacks" or value in (None, parameter.default, []):
                continue
            if name in trainer_options.VALIDATION or (name == "precision" and str(value) in PRECISIONS):
                kept.append(f"{name} {short(value)} unless {flag(name)} is given")
            elif why := trainer_options.OWNED.get(name):
                is_object = isinstance(value, Mapping) and self.class_key in value
                shown = str(value[self.class_key]).rpartition(".")[2] if is_object else short(value)
                overruled.append(f"{name} {shown}: {why}")
            else:
                kept.append(f"{name} {short(value)}")
        for each in self.callbacks.values():
            name, why = str(each[self.class_key]).rpartition(".")[2], self._why_owned(each)
            if why:
                overruled.append(f"{name}: {why}")
            else:
                kept.append(name)
        if own := self.own_trainer:
            overruled.append(f"{own}: a trial has Lightning's Trainer; give in the settings what {own} sets")
        lines = [("trainer", f"kept: {', '.join(kept)}")] if kept else []
        lines += [("" if number else "overruled", line) for number, line in enumerate(overruled)]
        if checkpoint := self.tree.get("ckpt_path"):
            lines.append(("ckpt_path", f"{checkpoint}: left out; a trial starts from its own checkpoint"))
        return lines

    def why_not(self, path: str) -> str:
        try:
            value = settings_tree.value_at(self.tree, path)
        except KeyError:
            return ""
        if settings_tree.is_reference(value):
            return f"it is computed from other settings, as {value}; give one of these"
        if path in self.settings.computed:
            return f"{self.settings.program} sets it"
        if path in RUN_SETTINGS:
            return "the sweep sets it"
        first, _, name = path.partition(".")
        if first == self.seed:
            return "the sweep sets it: give --seed"
        below = path.removeprefix(f"{self.callbacks_path}.").partition(".")[0]
        if path.startswith(f"{self.callbacks_path}.") and self._why_owned(self.callbacks.get(below, {})):
            return "it can't be taken, in place of this callback"
        if first == "trainer" and name in trainer_options.OWNED:
            return f"the sweep sets it: {trainer_options.OWNED[name]}"
        if path in self.hyperparameters:
            return ""
        items = [each for each, _ in settings_tree.leaves(value, tuple(path.split(".")))]
        if isinstance(value, Mapping | list) and items:
            what, parts = ("a list", "items") if isinstance(value, list) else ("a section", "settings")
            return f"{what}; give one of its {parts}, as {', '.join(items[:3])}"
        return "it stays as the settings have it"

    @property
    def _has_it(self) -> str:
        """Where the settings are, with the verb: `config.yaml has it`."""
        where = " and ".join(self.files) or self.settings.program or "the project"
        return f"{where} {'have' if len(self.files) > 1 else 'has'} it"

    def sources(self) -> list[Source]:
        program = self.settings.program
        specs = {program: spec_of(program)} if program else {}
        if program and specs[program].submodule_search_locations:  # else Python would import it to look
            specs[f"{program}.__main__"] = spec_of(f"{program}.__main__")
        for path, value in settings_tree.leaves(self.tree):
            # Of a class, or of a method of one. In `__main__` are those of the program itself.
            if path.rpartition(".")[2] == self.class_key and not str(value).startswith("__main__."):
                parts = str(value).split(".")
                specs |= {name: spec_of(name) for end in (1, 2) if (name := ".".join(parts[:-end]))}
        files = {name: Path(spec.origin) for name, spec in specs.items() if spec and spec.origin}
        return [(name, file) for name, file in files.items() if file.is_relative_to(project.folder())]

    def settings_files(self) -> dict[str, str]:
        whole = yaml.safe_dump(dict(self.tree), sort_keys=False)
        return {**dict.fromkeys(self.files, "{}\n"), **dict.fromkeys(self.files[:1], whole)}


def _epochs_of(fit: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a Trainer that has the epochs of a trial."""
    epochs, interval = fit["max_epochs"], fit.get("val_check_interval")
    if isinstance(interval, int):  # they are counted across passes over the data
        return {"check_val_every_n_epoch": None, "val_check_interval": interval}
    if interval is not None:
        return {"max_epochs": math.ceil(epochs * interval), "val_check_interval": interval}
    passes = fit.get("check_val_every_n_epoch") or 1
    return {"max_epochs": epochs * passes} | ({"check_val_every_n_epoch": passes} if passes > 1 else {})


def spec_of(module: str) -> Any:
    """Where Python finds a module; None where it does not."""
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None


def _loaders_of(model: Any) -> Any:
    """A data module of the loaders that a model has itself."""
    import lightning.pytorch as pl
    from lightning.pytorch.utilities.model_helpers import is_overridden

    names = {part: f"{part}_dataloader" for part in PARTS}
    own = [part for part, name in names.items() if is_overridden(name, model, pl.LightningModule)]
    return data_module_of(own, lambda part: getattr(model, names[part])())
