"""A project that is configured by files, as a trainable: what all kinds of projects have in common."""

from __future__ import annotations

import importlib
import importlib.util
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from sweeps.common import project
from sweeps.common.formatting import short
from sweeps.common.objective import Objective
from sweeps.kinds import settings_tree, trainer_options
from sweeps.kinds.source_files import Source
from sweeps.kinds.trainable import IN_LIGHTNING, Description, LightningTrainable, Precision

SWEPT_OF_TRAINER = (
    "accumulate_grad_batches",
    "gradient_clip_algorithm",
    "gradient_clip_val",
    "limit_train_batches",
    "limit_val_batches",
)
"""Settings of the Trainer that are hyperparameters."""
PRECISIONS: Mapping[str, Precision] = {
    **dict.fromkeys(("16", "16-mixed"), "auto"),
    **dict.fromkeys(("bf16", "bf16-mixed"), "bf16-mixed"),
    **dict.fromkeys(("32", "32-true"), "32"),
    **dict.fromkeys(("64", "64-true"), "64"),
}
"""Of Lightning's precisions, as a project gives them, those of FitConfig."""
MONITORS = ("ModelCheckpoint", "EarlyStopping")
"""Callbacks that name the metric of a project."""


class Built(NamedTuple):
    """What a project has built for a trial."""

    model: Any
    data: Any
    """None where the model has its own loaders."""
    trainer: Mapping[str, Any]
    """Arguments of Lightning's Trainer, as the project would make it."""


class ConfiguredProject(LightningTrainable):
    """A project that is configured by files, with its settings.

    Args:
        kind: of trainable.
        name: as it was given to the command.
        tree: settings, with all defaults.
        files: of the settings, relative to the project's folder; () in another process.
    """

    what: str
    """What the settings are of, for messages."""
    class_key: str
    """Key of the class of an object in the settings."""
    arguments_key = ""
    """Key of the arguments of an object; "" where they are beside its class."""
    callbacks_path: str
    """Where the settings have the callbacks."""
    seed: str
    """Key of the seed."""
    not_swept: tuple[str, ...]
    """Sections that the sweep sets, that say where files are, or of which only a part is swept."""
    computed: Mapping[str, Any] = MappingProxyType({})
    """Settings that the project's program sets, by path."""

    def __init__(self, kind: str, name: str, tree: Mapping[str, Any], files: tuple[str, ...]) -> None:
        self.tree, self.files = tree, files
        params_class = settings_tree.params_class(self.hyperparameters, self.check)
        description = Description(kind, name, json.dumps(self.content))
        super().__init__(description, params_class, self._monitored())
        self.precision = PRECISIONS.get(str(self.trainer.get("precision")), "auto")
        self.rest = f"the rest as {self._has_it}"
        self._last: tuple[Any, Any, dict[str, Any]] = (None, None, {})
        """Params of the last model, its data module and its options of the Trainer."""

    @property
    @abstractmethod
    def content(self) -> Mapping[str, Any]:
        """All that another process needs."""

    @property
    @abstractmethod
    def callbacks(self) -> Mapping[str, Mapping[str, Any]]:
        """Key to settings of each callback."""

    @property
    @abstractmethod
    def own_trainer(self) -> str:
        """Name of the project's own class of the Trainer; "" where it has Lightning's."""

    @abstractmethod
    def check(self, values: Mapping[str, Any]) -> None:
        """Raise a ValueError where values do not fit."""

    @abstractmethod
    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with these hyperparameters."""

    @abstractmethod
    def build(self, values: Mapping[str, Any]) -> Built:
        """Build the objects of a trial.

        Args:
            values: all hyperparameters.
        """

    @abstractmethod
    def modules(self) -> Iterator[str]:
        """Modules that train; those of installed packages are left out later."""

    def why_not_here(self, path: str) -> str:
        """Why a path of the settings is not to be swept in this kind of project; "" where it may be."""
        return ""

    @property
    def trainer(self) -> Mapping[str, Any]:
        """Settings of the Trainer."""
        return self.tree.get("trainer") or {}

    @property
    def taken_callbacks(self) -> dict[str, Mapping[str, Any]]:
        """Those that a trial has."""
        return {key: each for key, each in self.callbacks.items() if not self._why_owned(each)}

    @cached_property
    def hyperparameters(self) -> dict[str, Any]:
        """Path to value."""
        kept = {name: each for name, each in self.tree.items() if each is not None}
        kept = {name: each for name, each in kept.items() if name not in (self.seed, *self.not_swept)}
        kept["trainer"] = {name: self.trainer[name] for name in SWEPT_OF_TRAINER if name in self.trainer}
        places = settings_tree.leaves(self.taken_callbacks, tuple(self.callbacks_path.split(".")))
        return {
            path: value
            for path, value in (*settings_tree.leaves(kept), *places)
            if not settings_tree.is_reference(value) and path not in self.computed
        }

    def _why_owned(self, callback: Mapping[str, Any]) -> str:
        return why_owned(str(callback.get(self.class_key)))

    def _monitored(self) -> Objective | None:
        """What its callbacks monitor; None where nothing is."""
        for name in MONITORS:
            for each in self.callbacks.values():
                own = (each.get(self.arguments_key) or {}) if self.arguments_key else each
                if str(each.get(self.class_key)).endswith(f".{name}") and isinstance(own.get("monitor"), str):
                    return Objective(own["monitor"], "max" if own.get("mode") == "max" else "min")
        return None

    def exported(self, values: Mapping[str, Any], fit: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with which the project's own program trains as a trial does; the arguments of `export`."""
        tree = self.settings(values)
        trainer: dict[str, Any] = {**(tree.get("trainer") or {}), "max_epochs": fit["max_epochs"]}
        if (precision := fit.get("precision", "auto")) != "auto":
            trainer["precision"] = IN_LIGHTNING.get(precision, precision)
        if steps := fit.get("epoch_steps"):
            trainer["limit_train_batches"] = steps * (trainer.get("accumulate_grad_batches") or 1)
        seed = {self.seed: fit["seed"]} if self.seed in tree else {}
        return {**tree, "trainer": trainer, **seed}

    def describe_data(self, params: Any) -> str:
        return f"as {self._has_it}"

    def build_model(self, params: Any) -> Any:
        built = self.build({name: getattr(params, name) for name in self.hyperparameters})
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

        defaults = {name: each.default for name, each in inspect.signature(pl.Trainer).parameters.items()}
        given = {
            name: value
            for name, value in self.trainer.items()
            if name != "callbacks" and name in defaults and value not in (None, defaults[name], [])
        }
        owned = {
            name: why
            for name, why in trainer_options.OWNED.items()
            if name != "precision" or str(given.get(name)) not in PRECISIONS
        }
        kept = [
            f"{name} {short(value)}{' unless --precision is given' if name == 'precision' else ''}"
            for name, value in given.items()
            if name not in owned
        ]
        overruled = [
            f"{name} {self._in_short(given[name])}: {owned[name]}" for name in given if name in owned
        ]
        for each in self.callbacks.values():
            name, why = str(each.get(self.class_key)).rpartition(".")[2], self._why_owned(each)
            overruled += [f"{name}: {why}"] if why else []
            kept += [] if why else [name]
        if own := self.own_trainer:
            overruled.append(f"{own}: a trial has Lightning's Trainer; give in the settings what {own} sets")
        lines = [("trainer", f"kept: {', '.join(kept)}")] if kept else []
        return [*lines, *(("" if number else "overruled", line) for number, line in enumerate(overruled))]

    def why_not(self, path: str) -> str:
        try:
            value = settings_tree.value_at(self.tree, path)
        except KeyError:
            return ""
        if settings_tree.is_reference(value):
            return f"it is computed from other settings, as {value}; give one of these"
        if why := self.why_not_here(path):
            return why
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
        return f"{' and '.join(self.files) or self.what} {'have' if len(self.files) > 1 else 'has'} it"

    def _in_short(self, value: Any) -> str:
        """A value, or the class of an object."""
        if isinstance(value, Mapping) and self.class_key in value:
            return str(value[self.class_key]).rpartition(".")[2]
        return short(value)

    def sources(self) -> list[Source]:
        specs = {name: spec_of(name) for name in self.modules()}
        files = {name: Path(spec.origin) for name, spec in specs.items() if spec is not None and spec.origin}
        return [(name, file) for name, file in files.items() if file.is_relative_to(project.folder())]

    def settings_files(self) -> dict[str, str]:
        whole = yaml.safe_dump(dict(self.tree), sort_keys=False)
        return {**dict.fromkeys(self.files, "{}\n"), **dict.fromkeys(self.files[:1], whole)}


def why_owned(class_path: str) -> str:
    """Why a trial does not have a callback; "" where it has it."""
    module, _, name = class_path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name) if module else None
    except (ImportError, AttributeError):
        return ""
    return trainer_options.why_owned(found) if isinstance(found, type) else ""


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

    names = [f"{part}_dataloader" for part in ("train", "val", "test")]
    own = [name for name in names if is_overridden(name, model, pl.LightningModule)]
    methods = {name: (lambda self, name=name: getattr(model, name)()) for name in own}
    return type("OwnLoaders", (pl.LightningDataModule,), methods)()
