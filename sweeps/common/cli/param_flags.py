"""Hyperparameters of a trainable as flags: `--lr 0.1`, `--params lr=0.1`, `--params best/params.yaml`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sweeps.common import machine_folders, param_types, params_file
from sweeps.common.cli import parser as cli_parser
from sweeps.common.params_file import Recipe
from sweeps.common.yaml_values import ParamValue, field_docs
from sweeps.common.yaml_values import hyperparameter as value_of


def free(params_class: Any, taken: Sequence[str]) -> list[str]:
    """Hyperparameters that can have a flag of their own: those that are not called as another flag is."""
    others = {
        *taken,
        *(name.removeprefix("--").replace("-", "_") for name in machine_folders.OF_THE_MACHINE),
        "help",
    }
    return [field.name for field in dataclasses.fields(params_class) if field.name not in others]


def add(parser: cli_parser.Parser, title: str, params_class: Any, names: Sequence[str]) -> None:
    """A flag for each of these hyperparameters."""
    group = parser.add_argument_group(title)
    defaults, docs = params_class(), field_docs(params_class)
    for name in names:
        cli_parser.add(
            group, name, Any, docs[name] or "A hyperparameter.", getattr(defaults, name), metavar="VALUE"
        )


def take(
    tokens: Sequence[str], names: Sequence[str], fit_settings: Collection[str]
) -> tuple[list[str], list[Recipe], dict[str, ParamValue]]:
    """Tokens without hyperparameters, the files of `--params`, and the hyperparameters that were typed: the later one wins.

    Args:
        tokens: what was typed.
        names: hyperparameters with a flag of their own.
        fit_settings: names that `fit` of a file may hold.
    """
    files, tokens = _params_files(tokens)
    recipes = [params_file.read(path, fit_settings) for path in files]
    tokens, typed = cli_parser.take_params(tokens)
    for name in names:
        values, tokens = cli_parser.take_all(tokens, cli_parser.flag(name), "a value")
        if values:
            typed[name] = value_of(f"{cli_parser.flag(name)} {values[-1]}", values[-1])
    return tokens, recipes, typed


def checked(params_class: Any, given: Mapping[str, ParamValue]) -> tuple[dict[str, ParamValue], list[str]]:
    """The hyperparameters that fit, in their types, and what is wrong with the others or with all together."""
    params, faults = param_types.given(params_class, given)
    try:
        params_class(**params)
    except Exception as error:  # whatever the model says of its own hyperparameters
        faults.append(f"--params: {error}")
    return params, faults


def _params_files(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """`--params best/params.yaml`, and the other tokens."""
    files, others = [], []
    for number, token in enumerate(tokens):
        is_first = token.startswith("--params=")
        follows = is_first or (number > 0 and tokens[number - 1] == "--params")
        path = token.removeprefix("--params=") if is_first else token
        if follows and "=" not in path and path.endswith((".yaml", ".yml")):
            files.append(path)
        else:
            others.append(token)
    return files, others
