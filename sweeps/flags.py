"""Flags and YAML to a SweepConfig, with an answer that helps when one is misspelt.

jsonargparse parses, types and merges; this file gives it `--num-trials` for `num_trials`, groups,
`--params name=value`, and messages of one line with the nearest spelling.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from jsonargparse import ActionYesNo, ArgumentError, ArgumentParser

from sweeps.config import (
    DATA_DIR_VARIABLE,
    GROUPS,
    Knob,
    SweepConfig,
    UserError,
    check,
    docs,
    flag,
    nearest,
    one_or_several,
    to_yaml,
)
from sweeps.settings import knob, read_yaml, refuse_other, settings_of

SEVERAL = ("trainable", "search_space")
"""Settings that are a name, or several with a space between."""


def parse(arguments: Sequence[str] | None = None) -> SweepConfig:
    """Flags and YAML (`--config`, or that of `--resume`) to a checked SweepConfig; flags win.

    `--data-dir` is of this machine, not of the sweep: it goes into the environment.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` and `--print-config` (status 0).
    """
    tokens, params = _take_params(list(sys.argv[1:] if arguments is None else arguments))
    tokens = _join_several(tokens)
    _refuse_unknown_flags(tokens)
    files, tokens = _take_all(tokens, "--config", "a file, as in --config sweep.yaml")
    resumed, tokens = _take_all(tokens, "--resume", "the folder of a sweep, as in --resume results/NAME")
    if resumed:
        if kept := [
            name for name in ("--name", "--results-dir") if any(_is(token, name) for token in tokens)
        ]:
            raise UserError(f"{kept[0]}: a resumed sweep keeps its name and its folder")
        files = [settings_of(resumed[-1], files)]
    content: Mapping[str, Any] = {}
    for path in files:
        content = read_yaml(path, "--resume" if resumed else "--config")
        params = {**content.get("params", {}), **params}
    try:
        # The files first: jsonargparse lets the later one win, file or flag.
        values = _parser().parse_args([*(f"--config={path}" for path in files), *tokens])
    except ArgumentError as error:
        raise UserError(_in_plain_words(str(error))) from None
    if values.data_dir:
        os.environ[DATA_DIR_VARIABLE] = str(Path(values.data_dir).expanduser().resolve())
    given = {name: values[name] for name in docs()}
    several = {name: one_or_several(given[name]) for name in SEVERAL if isinstance(given[name], list)}
    config = SweepConfig(**{**given, **several, "params": params})
    if resumed:
        refuse_other(vars(config), content)
        folder = Path(resumed[-1]).expanduser().resolve()  # it may have been moved since
        config = dataclasses.replace(
            config, resume=str(folder), name=folder.name, results_dir=str(folder.parent)
        )
    if faults := check(config):
        raise UserError("\n".join(faults))
    if values.print_config:
        print(to_yaml(config), end="")
        raise SystemExit(0)
    return config


class _Parser(ArgumentParser):
    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise ArgumentError(None, message)


def _parser() -> ArgumentParser:
    parser = _Parser(
        prog="python -m sweeps.run",
        usage="%(prog)s [--config sweep.yaml] [flags]",
        description="Train many trials of one model or of several, prune the poor ones, record them all.",
        formatter_class=argparse.HelpFormatter,
        print_config=None,
        exit_on_error=False,
    )
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML file of these settings; flags win."
    )
    parser.add_argument("--print-config", action="store_true", help="Print all settings as YAML and stop.")
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            _add_flag(group, name)
    machine = parser.add_argument_group("This machine (never written into sweep.yaml)")
    machine.add_argument(
        "--data-dir",
        type=str | None,
        default=None,
        metavar="FOLDER",
        help=f"Folder of the raw data (default: ${DATA_DIR_VARIABLE}, then where set-up put it).",
    )
    return parser


def _add_flag(group: Any, name: str) -> None:
    kind, doc = get_type_hints(SweepConfig)[name], docs()[name]
    default = getattr(SweepConfig(), name)
    if kind is bool:
        action = ActionYesNo(no_prefix="no-")
        text = f"{doc.rstrip('.')} (default: {'on' if default else 'off'})."
        group.add_argument(flag(name).replace("--no-", "--"), action=action, default=default, help=text)
        return
    metavar = "NAME=VALUE" if name == "params" else "NAME ..." if name in SEVERAL else _metavar(str(kind))
    shown = "" if "(default:" in doc or name == "params" else f" (default: {default})"
    text = (doc.rstrip(".") + shown + ".").replace("%", "%%")
    # `params` is here for --help alone: jsonargparse would make a number of the string '32'.
    shown_as = group.add_argument(
        flag(name), type=Any if name == "params" else kind, default=default, metavar=metavar, help=text
    )
    shown_as.option_strings = [flag(name)]  # of lists jsonargparse knows `--trainable+` too


def _metavar(kind: str) -> str:
    if "Literal" in kind:
        return "{" + ",".join(re.findall(r"'([^']+)'", kind)) + "}"
    return "N" if "int" in kind else "X" if "float" in kind else "TEXT"


def _take_params(tokens: Sequence[str]) -> tuple[list[str], dict[str, Knob]]:
    """The tokens without `--params a=1 b=2`, and those params."""
    others: list[str] = []
    params: dict[str, Knob] = {}
    taking = False
    for token in tokens:
        text = token.removeprefix("--params=")
        taking = (
            (taking and not token.startswith("--")) or token.startswith("--params=") or token == "--params"
        )
        if not taking:
            others.append(token)
        elif token != "--params":
            name, equals, value = text.partition("=")
            if not equals or not all(part.isidentifier() for part in name.split(".")):
                raise UserError(f"--params {text}: give name=value, as in --params rows=0 width=16")
            params[name] = knob(f"--params {text}", value)
    return others, params


def _join_several(tokens: Sequence[str]) -> list[str]:
    """`--trainable a b` as the list that jsonargparse takes."""
    joined: list[str] = []
    rest = list(tokens)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in map(flag, SEVERAL):
            joined.append(name + equals + value)
            continue
        values = [value] if equals else []
        while rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        if not values:
            raise UserError(f"{name}: give a name, or several with a space between")
        joined.append(f"{name}={values[0] if len(values) == 1 else json.dumps(values)}")
    return joined


def _take_all(tokens: Sequence[str], name: str, wanted: str) -> tuple[list[str], list[str]]:
    """The values of a flag, and the other tokens."""
    values: list[str] = []
    others: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if not _is(token, name):
            others.append(token)
        elif value := token.removeprefix(name).removeprefix("=") or next(rest, ""):
            values.append(value)
        else:
            raise UserError(f"{name}: give {wanted}")
    return values, others


def _is(token: str, name: str) -> bool:
    return token.partition("=")[0] == name


def _refuse_unknown_flags(tokens: Iterable[str]) -> None:
    known = {flag(name) for name in docs()}
    known |= {
        "--help",
        "--config",
        "--print-config",
        "--data-dir",
        "--dashboard",
        "--no-dry-run",
        "--no-force",
    }
    given = (token.split("=")[0] for token in tokens if token.startswith("--"))
    faults = [f"{name}: no such flag.{nearest(name, known)}" for name in given if name not in known]
    if faults:
        raise UserError("\n".join([*faults, "All flags: python -m sweeps.run --help"]))


def _in_plain_words(message: str) -> str:
    """jsonargparse's message of a bad value, as flag, value and requirement in one line."""
    key = re.search(r'[Pp]arser key "([\w.]+)"', message)
    value = re.search(r"(?:Given|given|Got) value: (.*)", message)
    if not key or not value:
        return message
    name, given = key[1].split(".")[0], value[1].strip()
    wanted = str(get_type_hints(SweepConfig).get(name, "text"))
    if "Literal" in wanted:
        choices = re.findall(r"'([^']+)'", wanted)
        return f"{flag(name)} {given}: must be one of {', '.join(choices)}.{nearest(given, choices)}"
    words = {
        "dict": "name=value",
        "bool": "true or false",
        "int": "a whole number",
        "float": "a number",
    }
    requirement = next((text for word, text in words.items() if word in wanted), "text")
    return f"{flag(name)} {given}: must be {requirement}"
