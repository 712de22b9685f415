"""Flags of our commands: made of fields and their doc lines, with an answer that helps when one is misspelt.

argparse takes the words apart. This file gives it `--num-trials` for `num_trials`, `--params name=value`,
values in the types of the fields, and every mistake at once, a line each, with the nearest spelling.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin

from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.common.machine_folders import OF_THE_MACHINE
from sweeps.common.settings import Setting, flag, grouped
from sweeps.common.yaml_values import (
    DATA_DIR_VARIABLE,
    PREPARED_DIR_VARIABLE,
    hyperparameter,
    nearest,
)

MOST_METAVAR = 50
"""Characters of choices that are shown beside a flag; more are listed in its help."""
PAIRS_EXAMPLE = {"params": "rows=0 width=16", "ranges": "lr=0.01..0.1 width=16,32"}


class Fault(str):
    """What is wrong with a value, in place of the value."""


class Parser(argparse.ArgumentParser):
    """Raises a UserError for a mistake, in place of ending the process."""

    def __init__(self, prog: str, usage: str, description: str) -> None:
        super().__init__(
            prog=command(*prog.split()[1:]),
            usage=usage,
            description=description,
            allow_abbrev=False,
            exit_on_error=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def values_of(self, tokens: Sequence[str], hint: str = "") -> argparse.Namespace:
        """The values of all flags.

        Args:
            tokens: what was typed.
            hint: ends the message about a word that is no flag.

        Raises:
            UserError: one is wrong; all that are, a line each.
            SystemExit: after `--help` (status 0).
        """
        known = self._option_string_actions
        names = [token.partition("=")[0] for token in tokens if token.startswith("--")]
        if faults := [f"{name}: no such flag.{nearest(name, known)}" for name in names if name not in known]:
            raise UserError("\n".join([*faults, f"All flags: {self.prog} --help"]))
        words = []
        for token in tokens:
            name, equals, value = token.partition("=")
            takes_several = equals and name in known and known[name].nargs == "+"
            words += [name, value] if takes_several else [token]
        try:
            values, strays = self.parse_known_args(words)
        except argparse.ArgumentError as error:
            raise UserError(f"{str(error.argument_name).partition('/')[0]}: {error.message}") from None
        refuse_faults(vars(values).values(), [f"{stray}: not a flag{hint}" for stray in strays])
        return values


def refuse_faults(values: Iterable[Any], others: Sequence[str] = ()) -> None:
    """Answer all values that are none.

    Raises:
        UserError: there are some, a line each.
    """
    each = (one for value in values for one in (value if isinstance(value, list) else [value]))
    if faults := [*others, *(one for one in each if isinstance(one, Fault))]:
        raise UserError("\n".join(faults))


def add(
    group: Any, name: str, kind: Any, doc: str, default: Any, metavar: str | None = None
) -> argparse.Action:
    """A flag for a field; its help is the doc line and, where that does not say it, the default."""
    if kind is bool:
        text = f"{doc.rstrip('.')} (default: {'on' if default else 'off'})."
        yes_no: argparse.Action = group.add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=_escaped(text)
        )
        yes_no.default = default  # not before: argparse would say it too
        return yes_no
    shown = f"{default:g}" if isinstance(default, float) else default
    text = doc.rstrip(".") + ("" if "(default:" in doc else f" (default: {shown})") + "."
    choices = metavar or _metavar(kind)
    if len(choices) > MOST_METAVAR:
        text, choices = f"{text} One of {choices.strip('{}').replace(',', ', ')}.", "NAME"
    added: argparse.Action = group.add_argument(
        flag(name),
        type=partial(_of_text, name, kind),
        default=default,
        metavar=choices,
        nargs="+" if list[str] in get_args(kind) else None,
        help=_escaped(text),
    )
    return added


def add_pairs(group: Any, name: str, doc: str, takes_files: bool = False) -> argparse.Action:
    """A flag of `name=value` pairs, a list of (name, value); with `takes_files` of paths of YAML files
    too."""
    added: argparse.Action = group.add_argument(
        flag(name),
        action="extend",
        nargs="+",
        type=partial(_pair, name, takes_files),
        default=argparse.SUPPRESS,
        metavar="NAME=VALUE",
        help=_escaped(doc),
    )
    return added


def add_settings(parser: Parser, settings: Iterable[Setting]) -> None:
    """Flags for settings under their titles. Only those that are typed have a value."""
    for title, members in grouped(settings).items():
        group = parser.add_argument_group(title)
        for each in members:
            if get_origin(each.kind) is dict:
                add_pairs(group, each.name, each.doc)
            else:
                add(group, each.name, each.kind, each.doc, each.default).default = argparse.SUPPRESS


def typed(where: str, kind: Any, value: Any) -> Any:
    """A value, as a flag or a file has it, in the type of its field; a Fault where it is of another one."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    choices = [choice for one in kinds if get_origin(one) is Literal for choice in get_args(one)]
    if value is None and NoneType in kinds:
        return None
    if str(value) in choices:  # YAML has a number for `precision: 32`
        return str(value)
    for number in (int, float):
        if number in kinds and isinstance(value, int | number | str) and not isinstance(value, bool):
            with contextlib.suppress(ValueError):
                if math.isfinite(converted := number(value)):
                    return converted
    if isinstance(value, list) and list[str] in kinds:
        value = next((one for one in value if not isinstance(one, str)), value)
    as_it_is = {bool: bool, str: str, list[str]: list}
    if any(isinstance(value, as_it_is[one]) for one in kinds if one in as_it_is):
        return value
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    words = next((text for one, text in wanted.items() if one in kinds), "one of")
    if choices:
        words += f"{', or' if int in kinds else ''} {', '.join(choices)}.{nearest(str(value), choices)}"
    return Fault(f"{where} {value}: must be {words}")


def _of_text(name: str, kind: Any, text: str) -> Any:
    return None if text == "null" and NoneType in get_args(kind) else typed(flag(name), kind, text)


def _pair(flag_name: str, takes_files: bool, text: str) -> Any:
    name, equals, value = text.partition("=")
    if takes_files and not equals and text.endswith((".yaml", ".yml")):
        return text
    if not equals or not all(part.isidentifier() for part in name.split(".")):
        example = PAIRS_EXAMPLE[flag_name]
        return Fault(f"{flag(flag_name)} {text}: give name=value, as in {flag(flag_name)} {example}")
    return name, hyperparameter(f"{flag(flag_name)} {text}", value)


def add_machine(parser: Parser, *aliases: str) -> None:
    """Flags that are of this machine and in no file of settings; `aliases` of --data-dir."""
    machine = parser.add_argument_group("This machine (never written into settings)")
    machine.add_argument(
        "--data-dir",
        *aliases,
        metavar="FOLDER",
        help=f"Folder of the raw data (default: ${DATA_DIR_VARIABLE}, then the folder chosen at set-up).",
    )
    machine.add_argument(
        "--prepared-dir",
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


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _metavar(kind: Any) -> str:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    number = "N" if int in kinds else "X" if float in kinds else ""
    choices = [choice for one in kinds if get_origin(one) is Literal for choice in get_args(one)]
    if choices:
        return "{" + ",".join([*([number] if number else []), *choices]) + "}"
    return number or ("NAME" if list[str] in kinds else "TEXT")
