"""The kinds of plug-ins of a sweep."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

from sweeps.common import plugins, project
from sweeps.common.errors import UserError
from sweeps.common.imports import missing
from sweeps.common.plugins import PlugInKind
from sweeps.common.project import SEARCH_SPACES
from sweeps.config.sweep_config import SweepConfig, listed, one_or_several
from sweeps.kinds import registry
from sweeps.kinds.commands import command_words
from sweeps.kinds.commands.command_trainable import CommandTrainable
from sweeps.kinds.projects import hydra_groups
from sweeps.kinds.projects.hydra_groups import HydraGroups
from sweeps.kinds.projects.lightning_cli import LightningCLIProject
from sweeps.kinds.trainable import SpaceFile, Trainable


def choices(kind: str) -> list[str]:
    """Names of the plug-ins of a kind, of this program or of the project."""
    return plugins.choices(KINDS[kind])


def find(kind: str, name: str) -> Any:
    """The class that the module of a searcher, a scheduler or a logger defines."""
    return vars(module_of(kind, name))[KINDS[kind].defines[0]]


def module_of(kind: str, name: str) -> ModuleType:
    """`common.plugins.find` for search_space, searcher, scheduler or logger."""
    return plugins.find(KINDS[kind], name)


def named(config: SweepConfig) -> SweepConfig:
    """The sweep with its plug-ins by name, and by default the project's only trainable.

    Raises:
        UserError: the project has several trainables or none, or a file does not exist.
    """
    trainables = config.trainables
    if config.lightning_cli is not None:
        files = project.within(listed(config.cli_config))
        trainables = [registry.project_name(LightningCLIProject.kind, config.lightning_cli, *files)]
        config = dataclasses.replace(config, lightning_cli=None, cli_config=None)
    elif config.hydra is not None:
        overrides = listed(config.hydra_overrides)
        trainables = [registry.project_name(HydraGroups.kind, *project.within([config.hydra]), *overrides)]
        config = dataclasses.replace(config, hydra=None, hydra_overrides=None)
    elif config.command is not None:
        named = command_words.with_names(config.command, [*config.ranges, *config.params])
        trainables = [registry.project_name(CommandTrainable.kind, named)]
        config = dataclasses.replace(config, command=None)
    elif config.trainable is None:
        trainables = [registry.only(registry.choices())]
    if trainables and trainables[0].startswith(f"{HydraGroups.kind}:"):
        has_begun = config.resume is not None
        trainables[0], ranges = hydra_groups.with_groups(trainables[0], config.ranges, has_begun=has_begun)
        config = dataclasses.replace(config, ranges=ranges)
    by_name: dict[str, Any] = {
        kind: plugins.name_of(KINDS[kind], name)
        for kind in ("searcher", "scheduler")
        if (name := getattr(config, kind)) is not None
    }
    by_name["trainable"] = one_or_several([registry.name_of(name) for name in trainables])
    if spaces := config.search_spaces:
        by_name["search_space"] = one_or_several(
            [
                name if registry.is_project(name) else plugins.name_of(KINDS["search_space"], name)
                for name in spaces
            ]
        )
    return dataclasses.replace(config, **by_name)


def search_space(name: str) -> SpaceFile:
    """The search space of a name."""
    return SpaceFile.of(module_of("search_space", name))


def space_of(name: str, trainable: Trainable, has_ranges: bool = False) -> SpaceFile | None:
    """The search space of a name, by default the trainable's: in search_spaces/, else its own file.

    Args:
        name: of the search space, or of the trainable.
        trainable: that is trained in it.
        has_ranges: whether --ranges gives some; then None is the answer where there is no space.

    Raises:
        UserError: there is neither.
    """
    is_own = registry.is_project(name)
    is_own = is_own or plugins.path_of(KINDS["search_space"], name) == trainable.description.content
    if not is_own or trainable.space is not None:
        return search_space(name)
    if has_ranges:
        return None
    raise UserError(
        f"--trainable {name}: it has no search space. Give --ranges, as in --ranges lr=1e-4..1e-1:log "
        "batch_size=32,64, or --search-space, or define SPACE or suggest(trial) in its file"
    )


def searchers_that_take(form: str) -> list[str]:
    """Names of the searchers whose TAKES has a form."""
    return [name for name in choices("searcher") if form in find("searcher", name).TAKES]


def _check_space(asked: str, module: ModuleType) -> None:
    defined = [entry for entry in SPACES if hasattr(module, entry)]
    if len(defined) != 1:
        raise UserError(
            f"{asked}: {module.__file__} defines {' and '.join(defined) or 'neither'}; a "
            "search space defines either SPACE = {hyperparameter: domain} or a function suggest(trial)"
        )
    if defined == ["suggest"] and not callable(module.suggest):
        raise UserError(f"{asked}: suggest must be a function of a trial, suggest(trial)")


def _check_logger(asked: str, module: ModuleType) -> None:
    if fault := missing(*module.Logger.NEEDS):
        raise UserError(f"{asked}: {fault}")


SPACES = ("SPACE", "suggest")
"""A search space defines one of these."""
KINDS = {
    "search_space": PlugInKind("search space", SEARCH_SPACES, (), "--search-space", _check_space, SPACES),
    "searcher": PlugInKind("searcher", "sweeps.searchers", ("Searcher",), "--searcher"),
    "scheduler": PlugInKind("scheduler", "sweeps.schedulers", ("Scheduler",), "--scheduler"),
    "logger": PlugInKind("logger", "sweeps.loggers", ("Logger",), "--loggers", _check_logger),
}
