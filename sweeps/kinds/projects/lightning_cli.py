"""A project with a LightningCLI as a trainable: `lightning-cli:my_project.cli:config.yaml`.

Its hyperparameters are the paths of its settings. Every other setting stays as its files have it, except
those of the Trainer that this program sets. The project's own program runs, so that its subclasses, links and
hooks have their effect. It is left where LightningCLI has parsed, or where it would make its Trainer. Two
public methods of LightningCLI are replaced meanwhile, since the project makes the object itself.
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.cli.LightningCLI.html
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sweeps.common import imports, plugins, project
from sweeps.common.errors import CannotTrain, UserError, first_line, innermost, refuse
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.kinds import trainer_options
from sweeps.kinds.projects import settings_tree
from sweeps.kinds.projects.configured_project import (
    RUN_SETTINGS,
    ConfiguredProject,
    ProjectSettings,
    spec_of,
)
from sweeps.kinds.projects.project_program import Built, ProgramRun

if TYPE_CHECKING:
    from lightning.pytorch.cli import LightningCLI

FIT = "fit"


class LightningCLIProject(ConfiguredProject):
    """A project with a LightningCLI.

    Args:
        parsed: its LightningCLI; None in another process, which checks no values.
    """

    kind = "lightning-cli"
    class_key = settings_tree.CLASS
    callbacks_path = "trainer.callbacks"
    seed = "seed_everything"
    not_swept = ()
    best_file = "config.yaml"

    def __init__(
        self,
        name: str,
        settings: ProjectSettings,
        files: Sequence[str] = (),
        parsed: ParsedCLI | None = None,
    ) -> None:
        super().__init__(name, settings, files)
        self._parsed = parsed
        if parsed is not None:
            self.own_trainer = parsed.own_trainer

    @classmethod
    def find(cls, name: str) -> Self:
        """The trainable of `lightning-cli:my_project.cli:config.yaml`, with several files or none.

        Raises:
            UserError: the module, a file or a package is missing, or the project's parser refuses the files.
        """
        _, module, *files = name.split(":")
        flag = f"--lightning-cli {module}"
        if fault := imports.missing("jsonargparse", "projects"):
            raise UserError(f"{flag}: {fault}")
        if spec_of(module) is None:
            dotted = module.removesuffix(".py").strip("./").replace("/", ".")
            exact = f" Did you mean '{dotted}'?" if dotted != module and spec_of(dotted) is not None else ""
            hint = exact or nearest(dotted, plugins.beside(dotted))
            top = dotted.partition(".")[0]
            elsewhere = "" if spec_of(top) else project.is_elsewhere(ModuleNotFoundError(name=top))
            raise UserError(f"{flag}: no such module{elsewhere or f'.{hint} Give a dotted path'}")
        paths = [project.folder() / Path(file).expanduser() for file in files]
        missing = [file for file, path in zip(files, paths, strict=True) if not path.is_file()]
        refuse([f"-c {file}: no such file" for file in missing])
        where = " ".join(f"-c {file}" for file in files) or flag
        given: dict[str, Any] = {}
        try:
            texts = tuple(path.read_text() for path in paths)
            for text in texts:
                given = settings_tree.merged(given, load_yaml(text) or {})
            parsed = _parsed(module, tuple(map(str, paths)), texts)
        except CannotTrain as error:
            raise UserError(f"{flag}: {error}") from None
        except (Exception, SystemExit) as error:
            is_of_parser = type(error).__name__ == "ArgumentError"
            said = "" if is_of_parser else f"{type(error).__name__}: "
            raise UserError(f"{where}: {said}{_fault_of(error)}{project.is_elsewhere(error)}") from None
        tree = parsed.dumped(parsed.cli.config, given)
        if parsed.resolves:
            # Its references as they were given, so that they follow the other settings.
            tree = settings_tree.with_other_leaves(
                tree, given, lambda value, own: own if settings_tree.is_reference(own) else value
            )
        if isinstance(callbacks := (tree.get("trainer") or {}).get("callbacks"), Mapping):
            tree["trainer"]["callbacks"] = [callbacks]  # the parser takes a single one, too
        settings = ProjectSettings(program=module, tree=tree, given=given, resolves=parsed.resolves)
        return cls(name, settings, files, parsed)

    def check(self, values: Mapping[str, Any]) -> None:
        if self._parsed is not None and values:
            self._parsed.check(self.tree_with(values))

    def tree_with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = super().tree_with(values)
        return settings_tree.resolved(found) if self.settings.resolves else found

    def build(self, tree: dict[str, Any]) -> Built:
        tree |= {name: None for name in RUN_SETTINGS if name in tree}
        tree |= {self.seed: False} if self.seed in tree else {}  # the trial has been seeded
        of_trainer = tree.get("trainer") or {}
        kept = {name: value for name, value in of_trainer.items() if name not in trainer_options.OWNED}
        given = enumerate(kept.get("callbacks") or [])
        taken = [each for number, each in given if str(number) in self.taken_callbacks]
        no_use = {"logger": False, "profiler": None, "plugins": None}  # else they would be built
        tree["trainer"] = {**kept, **no_use, "callbacks": taken}
        built: Built = _run(self.settings.program, tree)
        return built

    def completed(self, tree: dict[str, Any]) -> Mapping[str, Any]:
        return tree if self._parsed is None else self._parsed.check(tree)

    def words(self, folder: str) -> str:
        subcommand = f"{FIT} " if self._parsed is None or self._parsed.has_subcommands else ""
        return f"python -m {self.settings.program} {subcommand}-c {folder}/{self.best_file}"


@dataclass(frozen=True)
class ParsedCLI:
    """A LightningCLI that has parsed its settings, and built nothing."""

    cli: LightningCLI
    has_subcommands: bool
    main: Any
    """The module of the program, in which classes of its own are found as `__main__.Net`."""

    @property
    def resolves(self) -> bool:
        """Whether it resolves references to other settings, as `${data.classes}`."""
        return str(self.cli.parser.parser_mode).startswith("omegaconf")

    @property
    def own_trainer(self) -> str:
        """Name of the class or function that would make its Trainer; "" where it is Lightning's."""
        from lightning.pytorch import Trainer

        found = self.cli.trainer_class
        return "" if found is Trainer else getattr(found, "__name__", str(found))

    def check(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as its parser completes them.

        Raises:
            ValueError: the parser refuses them.
        """
        try:
            with self._in_its_main():
                config = self.cli.parser.parse_object(_arguments(tree, self.has_subcommands))
            return self.dumped(config, tree)
        except Exception as error:  # jsonargparse's ArgumentError, and whatever a type of the user's raises
            raise ValueError(_fault_of(error)) from None

    def dumped(self, config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as a tree, without those that it computes from others.

        Args:
            config: as its parser has them.
            given: the same, in part, before the parser read them.
        """
        with self._in_its_main():
            # By its place: before jsonargparse 4.49 `skip_unset` is called `skip_none`.
            found: Any = load_yaml(self.cli.parser.dump(config, "parser_mode", False)) or {}
        if "pytorch_lightning.cli" in sys.modules:  # its own program would refuse the other package's classes
            found = settings_tree.with_other_leaves(found, None, lambda value, _: _renamed(value))
        found = found.get(FIT) if self.has_subcommands else found
        return dict(settings_tree.with_whole_numbers(found, given))

    @contextmanager
    def _in_its_main(self) -> Iterator[None]:
        before, sys.modules["__main__"] = sys.modules["__main__"], self.main
        try:
            yield
        finally:
            sys.modules["__main__"] = before


def _renamed(value: Any) -> Any:
    """The path of a class by the project's own name of its package."""
    for package, other in imports.OTHER_NAMES.items():
        if isinstance(value, str) and value.startswith(f"{other}."):
            return f"{package}{value.removeprefix(other)}"
    return value


def _fault_of(error: BaseException) -> str:
    """An error of the parser in a line: the setting and the innermost cause, without the types that it has
    tried."""
    setting, cause = first_line(error), first_line(innermost(error))
    return cause if cause == setting else f"{setting} {cause}"


def _arguments(tree: Mapping[str, Any], has_subcommands: bool) -> dict[str, Any]:
    """Settings as the main parser takes them."""
    return {"subcommand": FIT, FIT: dict(tree)} if has_subcommands else dict(tree)


@cache
def _parsed(module: str, paths: tuple[str, ...], texts: tuple[str, ...]) -> ParsedCLI:
    """What the program has parsed of files with these texts. It runs once: it may register something."""
    parsed: ParsedCLI = _run(module, paths)
    return parsed


def _run(module: str, given: Sequence[str] | Mapping[str, Any]) -> Any:
    """What the LightningCLI of a module has parsed of files, or builds of settings.

    Raises:
        CannotTrain: the module runs none.
        Exception: the parser or the module raises it.
    """
    from lightning.pytorch.cli import LightningCLI

    cls: Any = LightningCLI
    set_up, parse = cls.setup_parser, cls.parse_arguments
    run, has_subcommands = ProgramRun(), True

    def setup_parser(self: Any, add_subcommands: bool, main: dict[str, Any], sub: dict[str, Any]) -> None:
        nonlocal has_subcommands
        has_subcommands = add_subcommands
        raises = {"exit_on_error": False}
        set_up(self, add_subcommands, {**main, **raises}, {**sub, FIT: {**sub.get(FIT, {}), **raises}})

    def parse_arguments(self: Any, parser: Any, _: Any) -> None:
        try:
            if isinstance(given, Mapping):
                parse(self, parser, _arguments(given, has_subcommands))
            else:
                words = [word for file in given for word in ("--config", file)]
                parse(self, parser, [FIT, *words] if has_subcommands else words)
        except Exception as error:  # jsonargparse's, and whatever a type of the user's raises
            run.leave(error=error)
        if not isinstance(given, Mapping):
            run.leave(ParsedCLI(self, has_subcommands, sys.modules["__main__"]))

        def trainer(**settings: Any) -> None:
            settings = settings_tree.with_whole_numbers(settings, given["trainer"])
            run.leave(Built(self.model, self.datamodule, settings))

        self.trainer_class, self.save_config_callback = trainer, None

    with warnings.catch_warnings():  # Lightning's own use of jsonargparse, which a user can't change
        warnings.filterwarnings("ignore", "(?s).*(deprecated|DEPRECATION).*", module="lightning.pytorch.cli")
        replaced = [(cls, "setup_parser", setup_parser), (cls, "parse_arguments", parse_arguments)]
        return run.run(module, replaced, "without a LightningCLI")
