"""Run a project's LightningCLI up to a point, in this process: its parser, or what it builds.

The project's own program runs, as `python -m my_project.cli` does, so that its subclasses, links and hooks
have their effect. It is left where LightningCLI has parsed, or where it would make its Trainer. Two public
methods of LightningCLI are replaced meanwhile, since the project makes the object itself.
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.cli.LightningCLI.html
"""

from __future__ import annotations

import runpy
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningCLI

from sweeps.common import imports
from sweeps.common.errors import CannotTrain, first_line, innermost
from sweeps.common.yaml_values import load_yaml
from sweeps.kinds import settings_tree
from sweeps.kinds.configured_project import Built

FIT = "fit"


@dataclass(frozen=True)
class Parsed:
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
        found = self.cli.trainer_class
        return "" if found is Trainer else getattr(found, "__name__", str(found))

    def tree(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Its settings, without those that it computes from others.

        Args:
            given: as the files have them.
        """
        return self._dumped(self.cli.config, given)

    def check(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as its parser completes them.

        Raises:
            ValueError: the parser refuses them.
        """
        try:
            with self._in_its_main():
                config = self.cli.parser.parse_object(arguments(tree, self.has_subcommands))
            return self._dumped(config, tree)
        except Exception as error:  # jsonargparse's ArgumentError, and whatever a type of the user's raises
            raise ValueError(fault_of(error)) from None

    def _dumped(self, config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        with self._in_its_main():
            found: Any = load_yaml(self.cli.parser.dump(config, skip_unset=False)) or {}
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


class _Left(BaseException):
    """Leaves the program of the project, which may catch an Exception."""

    def __init__(self, found: Parsed | Built | Exception) -> None:
        self.found = found


def parsed(module: str, files: Sequence[str]) -> Parsed:
    """The LightningCLI of a module, with the settings of files.

    Raises:
        CannotTrain: the module runs none.
        Exception: the parser or the module raises it.
    """
    found = _run(module, files, is_built=False)
    assert isinstance(found, Parsed)
    return found


def built(module: str, tree: Mapping[str, Any]) -> Built:
    """What the LightningCLI of a module builds of settings.

    Raises: as `parsed`.
    """
    found = _run(module, tree, is_built=True)
    assert isinstance(found, Built)
    return found


def fault_of(error: BaseException) -> str:
    """An error of the parser in a line: the setting and the innermost cause, without the types that it has
    tried."""
    setting, cause = first_line(error), first_line(innermost(error))
    return cause if cause == setting else f"{setting} {cause}"


def arguments(tree: Mapping[str, Any], has_subcommands: bool) -> dict[str, Any]:
    """Settings as the main parser takes them."""
    return {"subcommand": FIT, FIT: dict(tree)} if has_subcommands else dict(tree)


def _run(module: str, given: Sequence[str] | Mapping[str, Any], is_built: bool) -> Parsed | Built:
    with _intercepted(given, is_built), _arguments_hidden(), warnings.catch_warnings():
        # Lightning's own use of jsonargparse, which a user can't change.
        warnings.filterwarnings(
            "ignore", "(?s).*(deprecated|DEPRECATION).*", module=r"lightning\.pytorch\.cli"
        )
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            raise CannotTrain(f"python -m {module} ends without a LightningCLI")
        except _Left as left:
            found = left.found
    if isinstance(found, Exception):
        raise found  # here, so that it keeps its cause
    return found


@contextmanager
def _intercepted(given: Sequence[str] | Mapping[str, Any], is_built: bool) -> Iterator[None]:
    cls: Any = LightningCLI
    set_up, parse = cls.setup_parser, cls.parse_arguments
    has_subcommands = True

    def setup_parser(self: Any, add_subcommands: bool, main: dict[str, Any], sub: dict[str, Any]) -> None:
        nonlocal has_subcommands
        has_subcommands = add_subcommands
        raises = {"exit_on_error": False}
        set_up(self, add_subcommands, {**main, **raises}, {**sub, FIT: {**sub.get(FIT, {}), **raises}})

    def parse_arguments(self: Any, parser: Any, _: Any) -> None:
        try:
            if isinstance(given, Mapping):
                parse(self, parser, arguments(given, has_subcommands))
            else:
                words = [word for file in given for word in ("--config", file)]
                parse(self, parser, [FIT, *words] if has_subcommands else words)
        except Exception as error:  # jsonargparse's, and whatever a type of the user's raises
            raise _Left(error) from None
        if not is_built:
            raise _Left(Parsed(self, has_subcommands, sys.modules["__main__"]))

        def trainer(**settings: Any) -> None:
            of_tree = given.get("trainer") if isinstance(given, Mapping) else None
            settings = settings_tree.with_whole_numbers(settings, of_tree)
            raise _Left(Built(self.model, self.datamodule, settings))

        self.trainer_class, self.save_config_callback = trainer, None

    cls.setup_parser, cls.parse_arguments = setup_parser, parse_arguments
    try:
        yield
    finally:
        cls.setup_parser, cls.parse_arguments = set_up, parse


@contextmanager
def _arguments_hidden() -> Iterator[None]:
    """Hide the words of this command from the project's program."""
    words, sys.argv = sys.argv, sys.argv[:1]
    try:
        yield
    finally:
        sys.argv = words
