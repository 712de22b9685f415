"""Flags and YAML to a SweepConfig, with an answer that helps when one is misspelt.

jsonargparse parses, types and merges; this file gives it `--num-trials` for `num_trials`, groups,
`--params name=value`, and messages of one line with the nearest spelling.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from sweeps.config import (
    DATA_DIR_VARIABLE,
    GROUPS,
    SweepConfig,
    UserError,
    check,
    docs,
    flag,
    nearest,
    to_yaml,
)


def parse(arguments: Sequence[str] | None = None) -> SweepConfig:
    """Flags and YAML (`--config`) to a checked SweepConfig; flags win over the file.

    `--data-dir` is of this machine, not of the sweep: it goes into the environment.

    Raises:
        UserError: every fault found, one a line.
        SystemExit: after `--help` and `--print-config` (status 0).
    """
    tokens = _split_params(list(sys.argv[1:] if arguments is None else arguments))
    _refuse_unknown_flags(tokens)
    _refuse_unknown_keys(tokens)
    try:
        values = _parser().parse_args(tokens)
    except ArgumentError as error:
        raise UserError(_in_plain_words(str(error))) from None
    if values.data_dir:
        os.environ[DATA_DIR_VARIABLE] = str(Path(values.data_dir).expanduser().resolve())
    config = SweepConfig(**{name: values[name] for name in docs()})
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
        description="Train many trials of one model, prune the poor ones, record them all.",
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
    kind = get_type_hints(SweepConfig)[name]
    default = getattr(SweepConfig(), name)
    doc = docs()[name]
    if kind is bool:
        action = "store_false" if default else "store_true"
        group.add_argument(flag(name), dest=name, action=action, help=("No " if default else "") + doc)
        return
    metavar = "NAME=VALUE" if name == "params" else _metavar(str(kind))
    shown = "" if "(default:" in doc or name == "params" else f" (default: {default})"
    text = (doc.rstrip(".") + shown + ".").replace("%", "%%")
    group.add_argument(flag(name), type=kind, default=default, metavar=metavar, help=text)


def _metavar(kind: str) -> str:
    if "Literal" in kind:
        return "{" + ",".join(re.findall(r"'([^']+)'", kind)) + "}"
    return "N" if "int" in kind else "X" if "float" in kind else "TEXT"


def _split_params(tokens: Iterable[str]) -> list[str]:
    """`--params a=1 b=2` to `--params.a=1 --params.b=2`, which add to those of the file."""
    out: list[str] = []
    taking = False
    for token in tokens:
        if token == "--params":
            taking = True
        elif taking and re.match(r"[A-Za-z_]\w*=", token):
            out.append("--params." + token)
        elif taking and not token.startswith("-"):
            raise UserError(f"--params {token}: give name=value, as in --params rows=0 width=16")
        else:
            taking = False
            out.append(token)
    return out


def _refuse_unknown_flags(tokens: Iterable[str]) -> None:
    known = {flag(name) for name in docs()}
    known |= {"--help", "--config", "--print-config", "--data-dir"}
    given = (token.split("=")[0] for token in tokens if token.startswith("--"))
    faults = [
        f"{name}: no such flag.{nearest(name, known)}"
        for name in given
        if name not in known and not name.startswith("--params.")
    ]
    if faults:
        raise UserError("\n".join([*faults, "All flags: python -m sweeps.run --help"]))


def _refuse_unknown_keys(tokens: Sequence[str]) -> None:
    for position, token in enumerate(tokens):
        name, _, path = token.partition("=")
        if name != "--config":
            continue
        path = path or (tokens[position + 1] if position + 1 < len(tokens) else "")
        faults = [
            f"{path}: {key}: no such key.{nearest(str(key), docs())}"
            for key in _read_yaml(path)
            if key not in docs()
        ]
        if faults:
            raise UserError("\n".join(faults))


def _read_yaml(path: str) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"--config {path}: cannot be read ({reason})") from None
    except yaml.YAMLError as error:
        raise UserError(f"--config {path}: not YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise UserError(f"--config {path}: must hold settings as 'key: value' lines")
    return content


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
