"""A project with a LightningCLI as a trainable: `lightning-cli:my_project.cli:config.yaml`.

Its hyperparameters are the paths of its settings. Every other setting stays as its files have it, except those
of the Trainer that this program sets.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

from sweeps.common import plugins, project
from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import short, shown_path
from sweeps.common.objective import Mode
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.training import trainer_options as options_of_trainer
from sweeps.training.adapters import settings_tree
from sweeps.training.adapters.settings_tree import ARGUMENTS, CLASS

if TYPE_CHECKING:
    from sweeps.training.adapters.captured_cli import Parsed

PREFIX = "lightning-cli"
NEEDS = "jsonargparse"
BEST_FILE = "config.yaml"
OF_THE_RUN = ("seed_everything", "ckpt_path", "weights_only")
"""Settings beside those of the Trainer that this program sets."""
OF_TRAINER = (
    "accumulate_grad_batches",
    "gradient_clip_algorithm",
    "gradient_clip_val",
    "limit_train_batches",
    "limit_val_batches",
    "callbacks",
)
"""Settings of the Trainer that are hyperparameters."""
BUILT = {"logger": False, "profiler": None, "plugins": None}
"""Settings of the Trainer that would build something of no use to a trial."""


def find(rest: str) -> ModuleType:
    """The trainable of `my_project.cli:config.yaml`, in which there may be several files or none.

    Raises:
        UserError: the module, a file or a package is missing, or the project's parser refuses the files.
    """
    module, *files = rest.split(":")
    flag = f"--lightning-cli {module}"
    if importlib.util.find_spec(NEEDS) is None:
        raise UserError(f"{flag}: {NEEDS} is not installed: python -m pip install 'jsonargparse[signatures]'")
    if _spec(module) is None:
        raise UserError(f"{flag}: no such module.{nearest(module, plugins.beside(module))} Give a dotted path")
    paths = [project.folder() / Path(file).expanduser() for file in files]
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise UserError(f"--cli-config {' '.join(missing)}: no such file")
    texts = tuple(path.read_text() for path in paths)
    return _found(module, tuple(files), tuple(map(str, paths)), texts)


@cache
def _found(module: str, files: tuple[str, ...], paths: tuple[str, ...], texts: tuple[str, ...]) -> ModuleType:
    """The trainable of files with this content."""
    from sweeps.training.adapters import captured_cli

    where = f"--cli-config {' '.join(files)}" if files else f"--lightning-cli {module}"
    try:
        parsed = captured_cli.parsed(module, paths)
    except CannotTrain as error:
        raise UserError(f"--lightning-cli {module}: {error}") from None
    except (Exception, SystemExit) as error:
        said = captured_cli.in_a_line(error)
        is_of_parser = type(error).__name__ == "ArgumentError"
        raise UserError(f"{where}: {said if is_of_parser else f'{type(error).__name__}: {said}'}") from None
    given: dict[str, Any] = {}
    for text in texts:
        given = settings_tree.merged(given, load_yaml(text) or {})
    return Project(module, parsed.tree(), given, files, parsed).trainable()


@cache
def load(payload: str) -> ModuleType:
    """The same in another process, whose PC may not have the files; the driver has checked its values."""
    content = json.loads(payload)
    return Project(content["module"], content["tree"], content["given"]).trainable()


class Project:
    """A project and its settings.

    Args:
        module: that runs its LightningCLI.
        tree: settings, with all defaults.
        given: settings as the files have them, without defaults.
        files: of the settings, as they were given; () in another process.
        parsed: its LightningCLI; None in another process, which checks no values.
    """

    def __init__(
        self,
        module: str,
        tree: Mapping[str, Any],
        given: Mapping[str, Any],
        files: tuple[str, ...] = (),
        parsed: Parsed | None = None,
    ) -> None:
        self._module, self._tree, self._given = module, tree, given
        self._files, self._parsed = files, parsed
        self._rest: tuple[Any, Any, dict[str, Any]] = (None, None, {})
        """Params of the last model, its data module and its options of the Trainer."""

    def trainable(self) -> ModuleType:
        """The project as a trainable."""
        found: Any = ModuleType(f"{__name__}:{self._payload}")
        spec = _spec(self._module)
        found.__file__ = str(spec.origin) if spec else None
        found.METRIC, found.MODE = self._objective
        found.Params = settings_tree.params_class(self._hyperparameters, self._check)
        found.build_model, found.build_data = self._build_model, self._build_data
        found.trainer_options, found.describe_data = self._options, self._describe_data
        found.why_not = self._why_not
        found.NOTES = self._notes()
        found.REST = f"the rest as {' and '.join(self._files) or self._module} has it"
        found.SOURCES = tuple(self._sources())
        found.TEXTS = self._texts()
        found.export = self._export
        return found  # type: ignore[no-any-return]

    @cached_property
    def _payload(self) -> str:
        return json.dumps({"module": self._module, "tree": self._tree, "given": self._given})

    @cached_property
    def _hyperparameters(self) -> dict[str, Any]:
        """Path to value."""
        kept = {
            key: {name: value[name] for name in OF_TRAINER if name in value} if key == "trainer" else value
            for key, value in self._tree.items()
            if key not in OF_THE_RUN and isinstance(value, Mapping | list | bool | int | float | str)
        }
        if callbacks := self._callbacks():
            # Those of the sweep's own have none; the others keep their numbers.
            named = [each for each in callbacks if not _why_owned(str(each.get(CLASS)))]
            kept["trainer"]["callbacks"] = {
                str(number): each for number, each in enumerate(callbacks) if each in named
            }
        last = {"trainer": kept.pop("trainer")} if "trainer" in kept else {}
        return dict(settings_tree.leaves({**kept, **last}))

    @property
    def _trainer(self) -> dict[str, Any]:
        return dict(self._tree.get("trainer") or {})

    def _callbacks(self) -> list[Mapping[str, Any]]:
        given = self._trainer.get("callbacks") or []
        return given if isinstance(given, list) else [given]

    @property
    def _objective(self) -> tuple[str, Mode]:
        """What its callbacks monitor; "" where nothing is."""
        for name in ("ModelCheckpoint", "EarlyStopping"):
            for each in self._callbacks():
                arguments = each.get(ARGUMENTS) or {}
                if str(each.get(CLASS)).endswith(f".{name}") and arguments.get("monitor"):
                    return arguments["monitor"], "max" if arguments.get("mode") == "max" else "min"
        return "", "max"

    def _why_not(self, path: str) -> str:
        """Why a path of the settings is no hyperparameter; "" where it is one, or where there is no such path."""
        try:
            value = settings_tree.value_at(self._tree, path)
        except KeyError:
            return ""
        first, _, name = path.partition(".")
        if first in OF_THE_RUN:
            return "the sweep sets it: give --seed" if first == "seed_everything" else "the sweep sets it"
        if first == "trainer" and name in _OWNED:
            return f"the sweep sets it: {_OWNED[name]}"
        if name.startswith("callbacks.") and path not in self._hyperparameters:
            return "the sweep has its own, in place of this callback"
        items = [each for each, _ in settings_tree.leaves(value, tuple(path.split(".")))]
        if isinstance(value, list | Mapping) and items:
            kind = "a list" if isinstance(value, list) else "a section"
            return f"{kind}; give its {'items' if kind == 'a list' else 'settings'}, as {', '.join(items[:3])}"
        return "" if path in self._hyperparameters else "it stays as the settings have it"

    def _settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return settings_tree.with_values(self._tree, self._given, values)

    def _check(self, values: Mapping[str, Any]) -> None:
        if self._parsed is not None and values:
            self._parsed.check(self._settings(values))

    def _build_model(self, params: Any) -> Any:
        from sweeps.training.adapters import captured_cli

        tree = self._settings({name: getattr(params, name) for name in self._hyperparameters})
        for name in OF_THE_RUN:
            if name in tree:
                tree[name] = False if name == "seed_everything" else None
        trainer = {name: value for name, value in (tree.get("trainer") or {}).items() if name not in _OWNED}
        trainer["callbacks"] = list(self._kept(trainer.get("callbacks")))
        tree["trainer"] = {**trainer, **BUILT}
        found = captured_cli.built(self._module, tree)
        options = {name: found.trainer[name] for name in options_of_trainer.FREE if name in found.trainer}
        options["callbacks"] = [
            each
            for each in options_of_trainer.callbacks_of(options)
            if not options_of_trainer.why_owned(type(each))
        ]
        self._rest = params, _loaders_of(found.model) if found.data is None else found.data, options
        return found.model

    def _kept(self, callbacks: Any) -> Iterator[Mapping[str, Any]]:
        listed = callbacks if isinstance(callbacks, list) else [callbacks] if callbacks else []
        return (each for each in listed if not _why_owned(str(each.get(CLASS))))

    def _build_data(self, params: Any) -> Any:
        if self._rest[0] is not params:
            self._build_model(params)
        data = self._rest[1]
        self._rest = params, None, self._rest[2]
        return data

    def _options(self, params: Any) -> dict[str, Any]:
        """Of the Trainer that the project would have made with the last model; {} for other params."""
        (built_with, _, options), self._rest = self._rest, (None, None, {})
        return options if built_with is params else {}

    def _describe_data(self, params: Any) -> str:
        data = self._tree.get("data")
        named = data.get(CLASS) if isinstance(data, Mapping) else None
        where = f" with {', '.join(self._files)}" if self._files else ""
        return f"{named or 'as built'} by python -m {self._module}{where}"

    def _notes(self) -> list[tuple[str, str]]:
        """What becomes of the settings of the Trainer, for the plan."""
        import lightning.pytorch as pl

        defaults = {name: each.default for name, each in inspect.signature(pl.Trainer).parameters.items()}
        set_here = {
            name: value
            for name, value in self._trainer.items()
            if name != "callbacks" and name in defaults and value not in (None, defaults[name], [])
        }
        owned = options_of_trainer.OWNED
        kept = [f"{name} {short(value)}" for name, value in set_here.items() if name not in owned]
        lines = []
        overruled = [f"{name} {_in_short(set_here[name])}: {owned[name]}" for name in set_here if name in owned]
        for each in self._callbacks():
            name = str(each.get(CLASS))
            if why := _why_owned(name):
                overruled.append(f"{name.rpartition('.')[2]}: {why}")
            else:
                kept.append(name.rpartition(".")[2])
        if self._tree.get("ckpt_path"):
            overruled.append(f"ckpt_path {self._tree['ckpt_path']}: a trial starts from its own checkpoint")
        if kept:
            lines.append(("trainer", f"kept: {', '.join(kept)}"))
        lines += [("overruled" if not number else "", line) for number, line in enumerate(overruled)]
        return lines

    def _sources(self) -> Iterator[tuple[str, Path]]:
        """Modules of the project that its source or its settings name."""
        own = _spec(self._module)
        names = [self._module]
        if own is not None and own.submodule_search_locations:  # else Python would import it to look
            names.append(f"{self._module}.__main__")
        found = settings_tree.leaves(self._tree)
        names += [str(value).rpartition(".")[0] for path, value in found if path.endswith(CLASS)]
        for name in dict.fromkeys(names):
            spec = _spec(name) if name and name != "__main__" else None
            if spec is not None and spec.origin and Path(spec.origin).is_relative_to(project.folder()):
                yield name, Path(spec.origin)

    def _texts(self) -> dict[str, str]:
        """The settings in place of their files, for the record and for the head of a cluster."""
        texts = dict.fromkeys(self._files, "{}\n")
        return {**texts, **dict.fromkeys(self._files[:1], yaml.safe_dump(dict(self._tree), sort_keys=False))}

    def _export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        """The file with which the project's own program trains a trial, by its name.

        Args:
            values: hyperparameters.
            fit: settings of FitConfig.
            folder: where the file will be.
        """
        tree = self._settings(values)
        tree["trainer"] = {**(tree.get("trainer") or {}), "max_epochs": fit["max_epochs"]}
        if "seed_everything" in tree:
            tree["seed_everything"] = fit["seed"]
        precision = fit.get("precision")
        if precision not in (None, "auto"):
            tree["trainer"]["precision"] = "32-true" if precision == "32" else precision
        if self._parsed is not None:
            tree = self._parsed.check(tree)
        words = f"python -m {self._module} {'fit ' if self._has_fit else ''}-c {folder}/{BEST_FILE}"
        return {BEST_FILE: f"# Train it again: {words}\n{yaml.safe_dump(tree, sort_keys=False)}"}

    @property
    def _has_fit(self) -> bool:
        return self._parsed is None or self._parsed.has_subcommands


_OWNED = options_of_trainer.OWNED


def _in_short(value: Any) -> str:
    """A value, or the class of an object."""
    return str(value[CLASS]).rpartition(".")[2] if isinstance(value, Mapping) and CLASS in value else short(value)


def _why_owned(class_path: str) -> str:
    """Why a trial does not have a callback; "" where it has it."""
    module, _, name = class_path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name) if module else None
    except (ImportError, AttributeError):
        return ""
    return options_of_trainer.why_owned(found) if isinstance(found, type) else ""


def _spec(module: str) -> Any:
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
