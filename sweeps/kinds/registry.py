"""The door of all trainables: by their names, and by their descriptions in another process."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from sweeps.common import imports, plugins, project
from sweeps.common.errors import UserError, refuse
from sweeps.common.plugins import PlugInKind
from sweeps.common.project import TRAINABLES
from sweeps.kinds import function, pickled
from sweeps.kinds.commands import command_words
from sweeps.kinds.commands.command_trainable import CommandTrainable
from sweeps.kinds.function import TRAIN, FunctionFile
from sweeps.kinds.lightning import LightningFile
from sweeps.kinds.pickled import PickledFunction, PickledModule
from sweeps.kinds.projects import cli_source
from sweeps.kinds.projects.hydra_groups import HydraGroups
from sweeps.kinds.projects.lightning_cli import LightningCLIProject
from sweeps.kinds.trainable import Description, Trainable

FILES: tuple[type[LightningFile | FunctionFile], ...] = (LightningFile, FunctionFile)
Prefixed = LightningCLIProject | HydraGroups | CommandTrainable
PROJECTS: Mapping[str, type[Prefixed]] = {
    each.kind: each for each in (LightningCLIProject, HydraGroups, CommandTrainable)
}
"""Those that are configured by files, and commands, by the prefix of their names, as in
`lightning-cli:my_project.cli:config.yaml`."""
FINDERS: Mapping[str, Callable[[str], Trainable]] = {
    **{prefix: each.find for prefix, each in PROJECTS.items()},
    pickled.PREFIX: pickled.find,
}
"""What finds a trainable by its name, by the prefix of that."""
LOADERS: Mapping[str, Callable[[Description], Trainable]] = {
    each.kind: each.load for each in (*FILES, *PROJECTS.values(), PickledFunction, PickledModule)
}
"""What makes a trainable again, by the name of its kind."""
TRAINABLE_FILES = PlugInKind(
    "trainable", TRAINABLES, (), "--trainable", marks=("build_model", f"{TRAIN}(params, trial)")
)


def find(name: str, flag: str = TRAINABLE_FILES.flag) -> Trainable:
    """The trainable of a name: of a file, or of a project behind the prefix of its kind.

    Raises:
        UserError: there is none, it can't be imported, or it breaks the contract.
    """
    if is_project(name):
        project.enter()
        with imports.fast():
            return FINDERS[name.partition(":")[0]](name)
    module = plugins.find(dataclasses.replace(TRAINABLE_FILES, flag=flag), name)
    kind = FunctionFile if function.is_function(module) else LightningFile
    refuse([f"{flag} {name}: {fault}" for fault in kind.faults_of(module)])
    return kind(name, module)


def load(description: Description) -> Trainable:
    """A trainable of its description, in any process."""
    with imports.fast():
        return LOADERS[description.kind](description)


def choices() -> list[str]:
    """Names of the trainables of the project that are files."""
    return plugins.choices(TRAINABLE_FILES)


def only(known: Sequence[str], flag: str = TRAINABLE_FILES.flag) -> str:
    """The only trainable among the known ones of the project.

    Raises:
        UserError: there are several, or there is none.
    """
    if len(known) == 1:
        return known[0]
    if known:
        raise UserError(f"{flag}: this project has several; give one of {', '.join(known)}")
    if unfit := choices():
        raise UserError(f"{flag}: no trainable of this project can be used here ({', '.join(unfit)})")
    raise UserError(plugins.no_project(TRAINABLE_FILES))


def name_of(typed: str) -> str:
    """The name of a trainable that was given by its name or by the path of a file.

    Raises:
        UserError: there is no such file.
    """
    return typed if is_project(typed) else plugins.name_of(TRAINABLE_FILES, typed)


def cli_module(typed: str) -> str:
    """The module of the program of a LightningCLI, as it was typed; "" of any other word.

    Raises:
        UserError: the program is no Python.
    """
    return "" if is_project(typed) else cli_source.module_of(typed, TRAINABLE_FILES.marks)


def cli_name(typed: str, files: Sequence[str]) -> str:
    """The name of a LightningCLI of its program, as it was typed, and files of its settings; "" where the
    program makes none."""
    module = cli_module(typed)
    return project_name(LightningCLIProject.kind, module, *project.within(files)) if module else ""


def is_project(name: str) -> bool:
    """Whether a name has the prefix of a kind, and is not that of a file."""
    prefix, colon, _ = name.partition(":")
    return bool(colon) and prefix in FINDERS


def project_name(kind: str, *parts: str) -> str:
    """The name of such a project."""
    return ":".join((kind, *parts))


def shown_name(name: str) -> str:
    """The name of a trainable, for a line of text."""
    prefix, _, rest = name.partition(":")
    return f"`{command_words.shown(rest)}`" if prefix == CommandTrainable.kind else name


def short_name(name: str) -> str:
    """The name of a trainable for the name of a folder."""
    prefix, _, rest = name.partition(":")
    if prefix == CommandTrainable.kind:
        name = f"{prefix}:{command_words.short_name(rest)}"
    if is_project(name):
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", name.split(":")[1].removesuffix(".py")).strip("-.")
    return name.split(".")[-1]
