"""Flags of the commands, made from fields and their doc lines.

argparse splits the words. This file adds `--num-trials` for `num_trials`, `--params name=value`, values in
the types of the fields, and all mistakes at once, one a line, with the nearest spelling.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import NoneType
from typing import Any, NoReturn, get_origin

from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.common.local_dirs import DATA_DIR_VARIABLE, OF_THE_MACHINE, PREPARED_DIR_VARIABLE
from sweeps.common.param_types import WORDS, literals, members
from sweeps.common.settings import Setting, flag, grouped
from sweeps.common.yaml_values import hyperparameter, nearest

MOST_METAVAR = 50
"""Characters of choices shown beside a flag; longer lists follow its help."""
PAIRS_EXAMPLE = {
    "params": "rows=0 width=16",
    "ranges": "lr=1e-4..1e-1:log width=16,32",
    "try": "lr=0.1 batch_size=64",
}


class Fault(str):
    """The error of a value, in its place."""


class Parser(argparse.ArgumentParser):
    """Raises a UserError for a mistake; argparse would end the process."""

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

    @property
    def flags(self) -> set[str]:
        """All flags by now."""
        return set(self._option_string_actions)

    def values_of(self, tokens: Sequence[str], hint: str = "") -> argparse.Namespace:
        """The values of all flags.

        Args:
            tokens: the words of the command line.
            hint: ends the message about a word that is no flag.

        Raises:
            UserError: every fault, one a line.
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
    """Raise a UserError for the faults among values and `others`, one a line."""
    if faults := [*others, *(one for value in values for one in _each(value) if isinstance(one, Fault))]:
        raise UserError("\n".join(faults))


def _each(value: Any) -> Iterator[Any]:
    """What a list and the lists in it hold, or the value itself."""
    if isinstance(value, list):
        for one in value:
            yield from _each(one)
    else:
        yield value


def add(group: Any, name: str, kind: Any, doc: str, default: Any, metavar: str = "") -> argparse.Action:
    """A flag for a field; its help is the doc line, with the default."""
    added: argparse.Action
    if kind is bool:
        text = f"{doc.rstrip('.')} (default: {'on' if default else 'off'})."
        added = group.add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=_escaped(text)
        )
        added.default = default  # not above: argparse would print it too
        return added
    shown = f"{default:g}" if isinstance(default, float) else default
    text = doc.rstrip(".") + ("" if "(default:" in doc else f" (default: {shown})") + "."
    metavar = metavar or _metavar(kind)
    if len(metavar) > MOST_METAVAR:
        text, metavar = f"{text} One of {metavar.strip('{}').replace(',', ', ')}.", "NAME"
    added = group.add_argument(
        flag(name),
        type=partial(_of_text, name, kind),
        default=default,
        metavar=metavar,
        nargs="+" if list[str] in members(kind) else None,
        help=_escaped(text),
    )
    return added


def add_pairs(group: Any, name: str, doc: str, takes_files: bool = False) -> None:
    """A flag of `name=value` pairs, a list of (name, value), and of paths of YAML files if it takes them."""
    group.add_argument(
        flag(name),
        action=_Pairs,
        nargs="+",
        type=partial(_pair, name, takes_files),
        default=argparse.SUPPRESS,
        metavar="NAME=VALUE",
        help=_escaped(doc),
    )


class _Pairs(argparse.Action):
    """Adds to the pairs that were given before; a name that was given before is a Fault."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        found = list(getattr(namespace, self.dest, []))
        for each in values:
            names = {other[0] for other in found if isinstance(other, tuple)}
            is_again = isinstance(each, tuple) and each[0] in names
            found.append(Fault(f"{option_string} {each[0]} is given twice") if is_again else each)
        setattr(namespace, self.dest, found)


def add_points(group: Any, name: str, dest: str, doc: str) -> None:
    """A flag that may be repeated, each time of `name=value` pairs: a list of lists of (name, value)."""
    group.add_argument(
        flag(name),
        dest=dest,
        action="append",
        nargs="+",
        type=partial(_pair, name, False),
        default=argparse.SUPPRESS,
        metavar="NAME=VALUE",
        help=_escaped(doc),
    )


def add_settings(parser: Parser, settings: Iterable[Setting]) -> None:
    """Flags for settings under their titles. Only those that are typed have a value."""
    for title, entries in grouped(settings).items():
        group = parser.add_argument_group(title)
        for each in entries:
            if get_origin(each.kind) is dict:
                add_pairs(group, each.name, each.doc)
            elif each.name == "tries":
                add_points(group, "try", each.name, each.doc)
            else:
                added = add(group, each.name, each.kind, each.doc, each.default, each.metavar)
                added.default = argparse.SUPPRESS


def typed(where: str, kind: Any, value: Any) -> Any:
    """A value of a flag or a file in the type of its field; a Fault where it does not fit."""
    kinds, choices = members(kind), literals(kind)
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
    words = " or ".join(text for one, text in WORDS.items() if one in kinds) or "one of"
    if choices:
        words += f"{', or' if int in kinds else ''} {', '.join(choices)}.{nearest(str(value), choices)}"
    return Fault(f"{where} {value}: must be {words}")


def _of_text(name: str, kind: Any, text: str) -> Any:
    return None if text == "null" and NoneType in members(kind) else typed(flag(name), kind, text)


def _pair(flag_name: str, takes_files: bool, text: str) -> Any:
    name, equals, value = text.partition("=")
    if takes_files and not equals and text.endswith((".yaml", ".yml")):
        return text
    if not equals or not all(part.isidentifier() or part.isdecimal() for part in name.split(".")):
        example = PAIRS_EXAMPLE[flag_name]
        return Fault(f"{flag(flag_name)} {text}: give name=value, as in {flag(flag_name)} {example}")
    return name, hyperparameter(value)


def add_machine(parser: Parser) -> None:
    """Flags for the folders of this machine, which no file of settings holds."""
    machine = parser.add_argument_group("This machine (never written into settings)")
    machine.add_argument(
        "--data-dir",
        metavar="FOLDER",
        help=f"Folder of the raw data (default: ${DATA_DIR_VARIABLE}, else the one chosen at installation).",
    )
    machine.add_argument(
        "--prepared-dir",
        metavar="FOLDER",
        help=f"Folder of prepared data (default: ${PREPARED_DIR_VARIABLE}, else ~/.cache/sweeps/prepared).",
    )


def machine_typed() -> dict[str, str]:
    """The machine's flags on this command line, and their folders as typed."""
    typed = {name: take_all(sys.argv[1:], name, "a folder")[0] for name in OF_THE_MACHINE}
    return {name: folders[-1] for name, folders in typed.items() if folders}


def machine_given() -> list[str]:
    """The same as words for another command on this machine."""
    return [word for name in machine_typed() for word in (name, os.environ[OF_THE_MACHINE[name]])]


def take_all(tokens: Sequence[str], name: str, wanted: str) -> tuple[list[str], list[str]]:
    """The values of a flag, and the other tokens; `wanted` describes the value for the message."""
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
    """Whether a token is this flag, with or without a value."""
    return token.partition("=")[0] == name


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _metavar(kind: Any) -> str:
    kinds = members(kind)
    number = "N" if int in kinds else "X" if float in kinds else ""
    if choices := literals(kind):
        return "{" + ",".join([*([number] if number else []), *choices]) + "}"
    return number or "NAME"
