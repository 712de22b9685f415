"""Flags of our commands: made of fields and their doc lines, with an answer that helps when one is misspelt.

jsonargparse parses and types; this file gives it `--num-trials` for `num_trials`, `--params name=value`,
and messages of one line with the nearest spelling.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from jsonargparse import ActionYesNo, ArgumentError, ArgumentParser

from sweeps.common.errors import UserError
from sweeps.common.machine_folders import OF_THE_MACHINE
from sweeps.common.yaml_values import (
    DATA_DIR_VARIABLE,
    PREPARED_DIR_VARIABLE,
    ParamValue,
    hyperparameter,
    nearest,
)


class Parser(ArgumentParser):
    """Raises a UserError for a mistake, in place of ending the process."""

    def __init__(self, prog: str, usage: str, description: str) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            formatter_class=argparse.HelpFormatter,
            print_config=None,
            exit_on_error=False,
        )

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise ArgumentError(None, message)

    def values_of(self, tokens: Sequence[str], kinds: Mapping[str, Any], hint: str = "") -> Any:
        """The values of all flags.

        Args:
            tokens: what was typed.
            kinds: type of each flag, for the message about one that is wrong.
            hint: ends the message about a word that is no flag.

        Raises:
            UserError: one is.
            SystemExit: after `--help` (status 0).
        """
        try:
            return self.parse_args(list(tokens))
        except ArgumentError as error:
            stray = str(error).partition("nrecognized arguments: ")[2]
            words = f"{stray}: not a flag{hint}" if stray else _in_plain_words(str(error), kinds)
            raise UserError(words) from None


def flag(name: str) -> str:
    """The flag of a field: `num_trials` is `--num-trials`."""
    return "--" + name.replace("_", "-")


def add(group: Any, name: str, kind: Any, doc: str, default: Any, metavar: str | None = None) -> None:
    """A flag for a field; its help is the doc line and, where that does not say it, the default."""
    if kind is bool:
        action = ActionYesNo(no_prefix="no-")
        text = f"{doc.rstrip('.')} (default: {'on' if default else 'off'})."
        group.add_argument(flag(name), action=action, default=default, help=_escaped(text))
        return
    shown = "" if "(default:" in doc or metavar == "NAME=VALUE" else f" (default: {default})"
    added = group.add_argument(
        flag(name),
        # `params` is here for --help alone: jsonargparse would make a number of the string '32'.
        type=Any if metavar == "NAME=VALUE" else kind,
        default=default,
        metavar=metavar or _metavar(str(kind)),
        help=_escaped(doc.rstrip(".") + shown + "."),
    )
    added.option_strings = [flag(name)]  # of lists jsonargparse knows `--trainable+` too


def add_machine(parser: Parser, *aliases: str) -> None:
    """Flags that are of this machine and in no file of settings; `aliases` of --data-dir."""
    machine = parser.add_argument_group("This machine (never written into settings)")
    machine.add_argument(
        "--data-dir",
        *aliases,
        type=str | None,
        default=None,
        metavar="FOLDER",
        help=f"Folder of the raw data (default: ${DATA_DIR_VARIABLE}, then where set-up put it).",
    )
    machine.add_argument(
        "--prepared-dir",
        type=str | None,
        default=None,
        metavar="FOLDER",
        help=f"Folder of prepared data (default: ${PREPARED_DIR_VARIABLE}, then ~/.cache/sweeps/prepared).",
    )


def machine_typed() -> dict[str, str]:
    """Those that this program was called with, and their folders as they were typed."""
    typed = {name: take_all(sys.argv[1:], name, "a folder")[0] for name in OF_THE_MACHINE}
    return {name: folders[-1] for name, folders in typed.items() if folders}


def machine_given() -> list[str]:
    """The same, as they are typed for another call on this machine."""
    return [word for name in machine_typed() for word in (name, os.environ[OF_THE_MACHINE[name]])]


def take_params(
    tokens: Sequence[str], flag: str = "--params", example: str = "rows=0 width=16"
) -> tuple[list[str], dict[str, ParamValue]]:
    """The tokens without `--params a=1 b=2`, and those params."""
    others: list[str] = []
    params: dict[str, ParamValue] = {}
    taking = False
    for token in tokens:
        text = token.removeprefix(f"{flag}=")
        taking = (taking and not token.startswith("--")) or token.startswith(f"{flag}=") or token == flag
        if not taking:
            others.append(token)
        elif token != flag:
            name, equals, value = text.partition("=")
            if not equals or not all(part.isidentifier() for part in name.split(".")):
                raise UserError(f"{flag} {text}: give name=value, as in {flag} {example}")
            params[name] = hyperparameter(f"{flag} {text}", value)
    return others, params


def take_all(tokens: Sequence[str], name: str, wanted: str) -> tuple[list[str], list[str]]:
    """The values of a flag, and the other tokens."""
    values: list[str] = []
    others: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if not is_flag(token, name):
            others.append(token)
        elif value := token.removeprefix(name).removeprefix("=") or next(rest, ""):
            values.append(value)
        else:
            raise UserError(f"{name}: give {wanted}")
    return values, others


def is_flag(token: str, name: str) -> bool:
    """Whether a token is this flag, with a value or without."""
    return token.partition("=")[0] == name


def refuse_unknown(tokens: Iterable[str], known: Iterable[str], command: str) -> None:
    """Answer flags that there are not, all at once."""
    known = {*known, "--help"}
    given = (token.split("=")[0] for token in tokens if token.startswith("--"))
    faults = [f"{name}: no such flag.{nearest(name, known)}" for name in given if name not in known]
    if faults:
        raise UserError("\n".join([*faults, f"All flags: {command} --help"]))


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _metavar(kind: str) -> str:
    if "Literal" in kind:
        choices = re.findall(r"'([^']+)'", kind)
        return "{" + ",".join(["N"] * ("int" in kind) + choices) + "}"
    return "N" if "int" in kind else "X" if "float" in kind else "TEXT"


def _in_plain_words(message: str, kinds: Mapping[str, Any]) -> str:
    """jsonargparse's message of a bad value, as flag, value and requirement in one line."""
    key = re.search(r'[Pp]arser key "([\w.]+)"', message)
    value = re.search(r"(?:Given|given|Got) value: (.*)", message)
    if not key or not value:
        return message
    name, given = key[1].split(".")[0], value[1].strip()
    wanted = str(kinds.get(name, "text"))
    if "Literal" in wanted:
        choices = re.findall(r"'([^']+)'", wanted)
        if "int" in wanted:
            requirement = f"a whole number, or {', '.join(choices)}"
            return f"{flag(name)} {given}: must be {requirement}.{nearest(given, choices)}"
        return f"{flag(name)} {given}: must be one of {', '.join(choices)}.{nearest(given, choices)}"
    words = {
        "dict": "name=value",
        "bool": "true or false",
        "int": "a whole number",
        "float": "a number",
    }
    requirement = next((text for word, text in words.items() if word in wanted), "text")
    return f"{flag(name)} {given}: must be {requirement}"
