"""Hyperparameters of a trainable as flags: `--lr 0.1`, `--params lr=0.1`, `--params best/params.yaml`."""

from __future__ import annotations

import dataclasses
from argparse import SUPPRESS, Namespace
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sweeps.common import machine_folders, param_types, params_file
from sweeps.common.cli import parser as cli_parser
from sweeps.common.params_file import Recipe
from sweeps.common.settings import flag
from sweeps.common.yaml_values import ParamValue, field_docs, hyperparameter

OF_PARAMS = """Hyperparameters as name=value, separated by spaces, or a YAML file of them, such as
best/params.yaml of a sweep or of a run, which also holds the settings of its training; flags win."""


def free(params_class: Any, taken: Sequence[str]) -> list[str]:
    """Hyperparameters that can have their own flag: those with another name than the flags `taken`."""
    names = [field.name for field in dataclasses.fields(params_class)]
    return [name for name in names if flag(name) not in (*taken, *machine_folders.OF_THE_MACHINE, "--help")]


def add(parser: cli_parser.Parser, title: str, params_class: Any, names: Sequence[str]) -> None:
    """A flag for each of these hyperparameters, and --params for all."""
    group = parser.add_argument_group(title)
    docs = field_docs(params_class) if names else {}
    for name in names:
        default = getattr(params_class(), name)
        doc = docs[name] or "A hyperparameter."
        added = cli_parser.add(group, name, str, doc, default, metavar="VALUE")
        added.type, added.default = partial(_value_of, name), SUPPRESS
    cli_parser.add_pairs(group, "params", OF_PARAMS, takes_files=True)


def taken(
    values: Namespace, names: Sequence[str], fit_settings: Collection[str]
) -> tuple[list[Recipe], dict[str, ParamValue]]:
    """The files of `--params`, and the typed hyperparameters: the last value counts, and a hyperparameter's
    own flag has priority over `--params`.

    Args:
        values: of all flags.
        names: hyperparameters with their own flag.
        fit_settings: names that `fit` of a file may hold.
    """
    given = getattr(values, "params", [])
    recipes = [params_file.read(path, fit_settings) for path in given if isinstance(path, str)]
    pairs = dict(pair for pair in given if not isinstance(pair, str))
    return recipes, {**pairs, **{name: vars(values)[name] for name in names if name in values}}


def checked(params_class: Any, given: Mapping[str, ParamValue]) -> tuple[dict[str, ParamValue], list[str]]:
    """The hyperparameters that fit, in their types, and the faults of the others or of all together."""
    params, faults = param_types.given(params_class, given)
    try:
        params_class(**params)
    except Exception as error:  # the model's own check of its hyperparameters
        faults.append(f"--params: {error}")
    return params, faults


def _value_of(name: str, text: str) -> ParamValue:
    return hyperparameter(f"{flag(name)} {text}", text)
