"""The door of all trainables: by their names, and by their descriptions in another process."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sweeps.common import imports, local_dirs, plugins, project
from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import plain_name
from sweeps.common.plugins import PlugInKind
from sweeps.common.project import TRAINABLES
from sweeps.kinds import function, pickled, source_files
from sweeps.kinds.commands import command_words
from sweeps.kinds.commands.command_trainable import CommandTrainable
from sweeps.kinds.function import TRAIN, FunctionFile
from sweeps.kinds.lightning import LightningFile
from sweeps.kinds.pickled import PickledFunction, PickledModule
from sweeps.kinds.projects.hydra_groups import HydraGroups
from sweeps.kinds.projects.lightning_cli import LightningCLIProject
from sweeps.kinds.trainable import Description, Trainable

FINDERS: Mapping[str, Callable[[str], Trainable]] = {
    LightningCLIProject.kind: LightningCLIProject.find,
    HydraGroups.kind: HydraGroups.find,
    CommandTrainable.kind: CommandTrainable.find,
    pickled.PREFIX: pickled.find,
}
"""What finds a trainable that has no file of its own, by the prefix of its name, as in
`lightning-cli:my_project.cli:config.yaml`."""
LOADERS: Mapping[str, Callable[[Description], Trainable]] = {
    LightningFile.kind: LightningFile.load,
    FunctionFile.kind: FunctionFile.load,
    LightningCLIProject.kind: LightningCLIProject.load,
    HydraGroups.kind: HydraGroups.load,
    CommandTrainable.kind: CommandTrainable.load,
    PickledFunction.kind: pickled.load,
    PickledModule.kind: pickled.load,
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
    """The module of a program that makes a LightningCLI, of its path or its dotted path; "" of another word.

    A program that imports a file beside it by its bare name is run in its own folder, which becomes the
    project's.

    Raises:
        UserError: the program is no Python.
    """
    if is_project(typed):
        return ""
    is_path = typed.endswith(".py") or "/" in typed
    file = _program(Path(typed).expanduser().resolve()) if is_path else _program_of(typed)
    if file is None or not source_files.makes_cli(file, TRAINABLE_FILES.marks):
        return ""
    if not is_path:
        return typed
    imported = [name for name, _ in source_files.imports_of(file.read_bytes(), "") if "." not in name]
    beside = [name for name in imported if project.module_file(name, [file.parent])]
    if any(project.module_file(name, [project.folder()]) is None for name in beside):
        project.use(file.parent)
    return project.dotted(file).removesuffix(".__main__")


def _program(path: Path) -> Path | None:
    """The file that runs as the program of a file or a package; None where there is none."""
    file = path / "__main__.py" if path.is_dir() else path
    return file if file.suffix == ".py" and file.is_file() else None


def _program_of(module: str) -> Path | None:
    """The same of a module of the project, or of one that is installed. No package is imported for it."""
    first, *rest = module.split(".")
    if not all(part.isidentifier() for part in (first, *rest)):
        return None
    places = [project.folder()]
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(first) if rest else None
        places += [Path(place).parent for place in (spec and spec.submodule_search_locations) or ()]
    below = [place.joinpath(first, *rest) for place in places]
    found = (_program(path) or _program(path.with_name(f"{path.name}.py")) for path in below)
    return next(filter(None, found), None)


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


def new_name(trainables: Iterable[str], of: str = "", *, is_first: bool = True) -> str:
    """The name of a folder that was given none: of its trainables and the time, as net-20260131-235959.

    Args:
        of: stands before it.
        is_first: not of a further worker of a run, in which only the first one writes.
    """
    names = plain_name("-".join(map(short_name, trainables)), 80) or "sweep"
    name = time.strftime(f"{of}{names}-%Y%m%d-%H%M%S")
    return local_dirs.unused_name(name) if is_first else name


def short_name(name: str) -> str:
    """The name of a trainable for the name of a folder."""
    prefix, _, rest = name.partition(":")
    if prefix == CommandTrainable.kind:
        name = f"{prefix}:{command_words.short_name(rest)}"
    if is_project(name):
        return plain_name(name.split(":")[1].removesuffix(".py"))
    return name.split(".")[-1]
