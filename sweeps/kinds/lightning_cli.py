"""A project with a LightningCLI as a trainable: `lightning-cli:my_project.cli:config.yaml`.

Its hyperparameters are the paths of its settings. Every other setting stays as its files have it, except
those of the Trainer that this program sets.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sweeps.common import plugins, project
from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import pip_install
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.kinds import settings_tree, trainer_options
from sweeps.kinds.configured_project import Built, ConfiguredProject, spec_of
from sweeps.kinds.settings_tree import ARGUMENTS, CLASS
from sweeps.kinds.trainable import Description

if TYPE_CHECKING:
    from sweeps.kinds.lightning_cli_program import Parsed

KIND = "lightning-cli"
PACKAGE = "jsonargparse"
BEST_FILE = "config.yaml"
SEED = "seed_everything"
RUN_SETTINGS = ("ckpt_path", "weights_only")
"""Settings beside the seed and those of the Trainer that this program sets."""
LEFT_OUT = {"logger": False, "profiler": None, "plugins": None}
"""Settings of the Trainer that would build something of no use to a trial."""


def find(name: str) -> LightningCLIProject:
    """The trainable of `lightning-cli:my_project.cli:config.yaml`, with several files or none.

    Raises:
        UserError: the module, a file or a package is missing, or the project's parser refuses the files.
    """
    _, module, *files = name.split(":")
    flag = f"--lightning-cli {module}"
    if importlib.util.find_spec(PACKAGE) is None:
        raise UserError(f"{flag}: {PACKAGE} is not installed: {pip_install('jsonargparse[signatures]')}")
    if spec_of(module) is None:
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        exact = f" Did you mean '{dotted}'?" if dotted != module and spec_of(dotted) is not None else ""
        hint = exact or nearest(dotted, plugins.beside(dotted))
        raise UserError(f"{flag}: no such module.{hint} Give a dotted path")
    paths = [project.folder() / Path(file).expanduser() for file in files]
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise UserError(f"--cli-config {' '.join(missing)}: no such file")
    texts = tuple(path.read_text() for path in paths)
    return _found(name, module, tuple(files), tuple(map(str, paths)), texts)


@cache
def _found(
    name: str, module: str, files: tuple[str, ...], paths: tuple[str, ...], texts: tuple[str, ...]
) -> LightningCLIProject:
    """The trainable of files with this content."""
    from sweeps.kinds import lightning_cli_program

    where = f"--cli-config {' '.join(files)}" if files else f"--lightning-cli {module}"
    try:
        given = _merged(texts)
        parsed = lightning_cli_program.parsed(module, paths)
    except CannotTrain as error:
        raise UserError(f"--lightning-cli {module}: {error}") from None
    except (Exception, SystemExit) as error:
        said = lightning_cli_program.fault_of(error)
        is_of_parser = type(error).__name__ == "ArgumentError"
        raise UserError(f"{where}: {said if is_of_parser else f'{type(error).__name__}: {said}'}") from None
    tree = parsed.tree(given)
    if parsed.resolves:
        tree = settings_tree.with_references(tree, given)
    return LightningCLIProject(name, module, tree, given, files, parsed)


def _merged(texts: Sequence[str]) -> dict[str, Any]:
    """The settings of several files; those of a later one have priority."""
    found: dict[str, Any] = {}
    for text in texts:
        found = settings_tree.merged(found, load_yaml(text) or {})
    return found


def load(description: Description) -> LightningCLIProject:
    """The same in another process, whose PC may not have the files; the driver has checked its values."""
    return LightningCLIProject(description.name, **json.loads(description.content))


class LightningCLIProject(ConfiguredProject):
    """A project with a LightningCLI.

    Args:
        name: as it was given to the command.
        module: that runs its LightningCLI.
        tree: settings, with all defaults.
        given: settings as the files have them, without defaults.
        files: of the settings, as they were given; () in another process.
        parsed: its LightningCLI; None in another process, which checks no values.
        resolves: whether it resolves references to other settings.
    """

    class_key, arguments_key = CLASS, ARGUMENTS
    callbacks_path = "trainer.callbacks"
    seed = SEED
    not_swept = (*RUN_SETTINGS, "trainer")

    def __init__(
        self,
        name: str,
        module: str,
        tree: Mapping[str, Any],
        given: Mapping[str, Any],
        files: tuple[str, ...] = (),
        parsed: Parsed | None = None,
        resolves: bool = False,
    ) -> None:
        self._resolves = resolves if parsed is None else parsed.resolves
        self.what = module
        self._module, self._given, self._parsed = module, given, parsed
        super().__init__(KIND, name, tree, files)

    @property
    def content(self) -> Mapping[str, Any]:
        return {"module": self._module, "tree": self.tree, "given": self._given, "resolves": self._resolves}

    @property
    def callbacks(self) -> dict[str, Mapping[str, Any]]:
        return {str(number): each for number, each in enumerate(_listed(self.trainer.get("callbacks")))}

    @property
    def own_trainer(self) -> str:
        return "" if self._parsed is None else self._parsed.own_trainer

    def check(self, values: Mapping[str, Any]) -> None:
        if self._parsed is not None and values:
            self._parsed.check(self.settings(values))

    def build(self, values: Mapping[str, Any]) -> Built:
        from sweeps.kinds import lightning_cli_program

        tree = self.settings(values)
        tree |= {name: None for name in RUN_SETTINGS if name in tree}
        tree |= {SEED: False} if SEED in tree else {}  # the trial has been seeded
        of_trainer = tree.get("trainer") or {}
        kept = {name: value for name, value in of_trainer.items() if name not in trainer_options.OWNED}
        callbacks = _listed(kept.get("callbacks"))
        taken = [each for key, each in enumerate(callbacks) if str(key) in self.taken_callbacks]
        tree["trainer"] = {**kept, **LEFT_OUT, "callbacks": taken}
        return lightning_cli_program.built(self._module, tree)

    def export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        tree = self.exported(values, fit)
        if self._parsed is not None:
            tree = self._parsed.check(tree)
        subcommand = "fit " if self._parsed is None or self._parsed.has_subcommands else ""
        words = f"python -m {self._module} {subcommand}-c {folder}/{BEST_FILE}"
        return {BEST_FILE: f"# Train it again: {words}\n{yaml.safe_dump(tree, sort_keys=False)}"}

    def modules(self) -> Iterator[str]:
        yield self._module
        own = spec_of(self._module)
        if own is not None and own.submodule_search_locations:  # else Python would import it to look
            yield f"{self._module}.__main__"
        for path, value in settings_tree.leaves(self.tree):
            module = str(value).rpartition(".")[0]
            if path.endswith(CLASS) and module not in ("", "__main__"):
                yield module

    def notes(self) -> list[tuple[str, str]]:
        lines = super().notes()
        if checkpoint := self.tree.get("ckpt_path"):
            lines.append(("ckpt_path", f"{checkpoint}: left out; a trial starts from its own checkpoint"))
        return lines

    def why_not_here(self, path: str) -> str:
        return "the sweep sets it" if path in RUN_SETTINGS else ""

    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = settings_tree.with_values(self.tree, self._given, values)
        return settings_tree.resolved(found) if self._resolves else found


def _listed(callbacks: Any) -> list[Mapping[str, Any]]:
    """The parser takes a single callback, too."""
    return callbacks if isinstance(callbacks, list) else [callbacks] if callbacks else []
