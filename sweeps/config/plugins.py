"""The kinds of plug-ins of a sweep, by name or by dotted path."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from sweeps.common import plugins
from sweeps.common.errors import UserError
from sweeps.common.plugins import Kind


def choices(kind: str) -> list[str]:
    """The plug-ins of a kind that are here by name: those shipped, and the user's own."""
    return plugins.choices(KINDS[kind])


def find(kind: str, name: str) -> ModuleType:
    """The module of a plug-in, its contract checked.

    Args:
        kind: trainable, search_space, searcher, scheduler or logger.
        name: a file of the kind's folder, a dotted path, or a file where the command was typed.

    Raises:
        UserError: there is none of that name, it can't be imported, or it lacks what it must define.
    """
    return plugins.find(KINDS[kind], name)


def searchers_that_take(form: str) -> list[str]:
    """Names of those whose TAKES has a form."""
    return [name for name in choices("searcher") if form in find("searcher", name).TAKES]


def _check_space(asked: str, module: ModuleType) -> None:
    defined = [entry for entry in ("SPACE", "suggest") if hasattr(module, entry)]
    if len(defined) != 1:
        raise UserError(
            f"{asked}: {module.__file__} defines {' and '.join(defined) or 'neither'}; a "
            "search space defines either SPACE = {hyperparameter: domain} or a function suggest(trial)"
        )
    if defined == ["suggest"] and not callable(module.suggest):
        raise UserError(f"{asked}: suggest must be a function of a trial, suggest(trial)")


def _check_logger(asked: str, module: ModuleType) -> None:
    package, name = module.NEEDS
    if importlib.util.find_spec(package) is None:
        raise UserError(f"{asked}: {package} is not installed: python -m pip install {name}")


KINDS = {
    "trainable": plugins.TRAINABLE,
    "search_space": Kind("search space", "search_spaces", (), "--search-space", _check_space),
    "searcher": Kind("searcher", "sweeps.searchers", ("build", "SCHEDULERS", "TAKES"), "--searcher"),
    "scheduler": Kind("scheduler", "sweeps.schedulers", ("build", "describe"), "--scheduler"),
    "logger": Kind("logger", "sweeps.loggers", ("build", "NEEDS"), "--loggers", _check_logger),
}
"""Of SPACE and suggest, a space defines one."""
