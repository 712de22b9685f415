"""Flags of the commands, made from fields and their doc lines.

argparse splits the words. This file adds `--num-trials` for `num_trials`, `--params name=value`, values in
the types of the fields, and all mistakes at once, one a line, with the nearest spelling.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Sequence
from typing import Any, NoReturn, get_origin

from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.formatting import command
from sweeps.common.local_dirs import DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE
from sweeps.common.param_types import literals, members
from sweeps.common.settings import Setting, flag, grouped, typed
from sweeps.common.yaml_values import hyperparameter, nearest

SHORT = {"num_trials": "-n", "max_concurrent": "-j"}
"""Flags that are typed most, by setting."""
PAIRS_EXAMPLES = {
    "--params": "rows=0 width=16",
    "--ranges": "lr=1e-4..1e-1:log width=16,32",
    "--try": "lr=0.1 batch_size=64",
    "try": "lr=0.1 batch_size=64",
    "set": "num-trials=48 max-concurrent=3",
}


class Parser(argparse.ArgumentParser):
    """Raises a UserError for mistakes; argparse would end the process."""

    def __init__(self, prog: str, usage: str, description: str) -> None:
        super().__init__(
            prog=command(*prog.split()[1:]),
            usage=usage,
            description=description,
            allow_abbrev=False,
            exit_on_error=False,
        )
        self.faults: list[str] = []
        """Of the values that are read."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    @property
    def flags(self) -> set[str]:
        """All flags by now."""
        return set(self._option_string_actions)

    def show_only(self, settings: Container[str]) -> None:
        """Leave the flags of other settings out of the help."""
        for action in self._actions:
            if action.dest not in settings:
                action.help = argparse.SUPPRESS

    def values_of(self, arguments: Sequence[str] | None = None, hint: str = "") -> argparse.Namespace:
        """The values of all flags.

        Args:
            arguments: the words of the command line; None: those that the process was started with.
            hint: ends the message about a word that is no flag.

        Raises:
            UserError: every fault, one a line.
            SystemExit: after `--help` (status 0).
        """
        tokens = sys.argv[1:] if arguments is None else arguments
        known = self._option_string_actions
        names = [token.partition("=")[0] for token in tokens if token.startswith("--")]
        if faults := [f"{name}: no such flag.{nearest(name, known)}" for name in names if name not in known]:
            refuse([*faults, f"All flags: {self.prog} {'--help-all' if '--help-all' in known else '--help'}"])
        words = []
        for token in tokens:
            name, equals, value = token.partition("=")
            takes_several = equals and name in known and known[name].nargs == "+"
            words += [name, value] if takes_several else [token]
        try:
            values, strays = self.parse_known_intermixed_args(words)
        except argparse.ArgumentError as error:
            flags = str(error.argument_name).split("/")  # -n/--num-trials, --compile/--no-compile
            name = next((each for each in flags if each.startswith("--")), flags[0])
            raise UserError(f"{name}: {error.message}") from None
        refuse([*(f"{stray}: not a flag{hint}" for stray in strays), *self.faults])
        return values


class _Value(argparse.Action):
    """Sets a value, or a list of several, in the type of the setting."""

    def __init__(self, *, kind: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self._kind = kind

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        with collecting(parser.faults):
            setattr(namespace, self.dest, typed(str(option_string), self._kind, values))


class _Pairs(argparse.Action):
    """Adds `name=value` pairs to those that were given before, or each time as a point of their own."""

    def __init__(self, *, are_points: bool, takes_files: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self._are_points, self._takes_files = are_points, takes_files

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        before: Any = getattr(namespace, self.dest, [] if self._are_points else {})
        files = [word for word in values if self._takes_files and _is_file(word)]
        words = [word for word in values if word not in files]
        texts = named_texts(words, str(option_string), parser.faults, [] if self._are_points else before)
        pairs = {name: hyperparameter(text) for name, text in texts.items()}
        setattr(namespace, self.dest, [*before, pairs] if self._are_points else before | pairs)
        if self._takes_files:
            namespace.files = [*getattr(namespace, "files", []), *files]


def _is_file(word: str) -> bool:
    return "=" not in word and word.endswith((".yaml", ".yml"))


def named_texts(
    words: Iterable[str], where: str, faults: list[str], before: Container[str] = ()
) -> dict[str, str]:
    """Name to value, as text, of words such as `lr=0.1`.

    Args:
        words: that were typed.
        where: what takes them: a flag, or a command to a running sweep.
        faults: gets those of the words, and of names that are given twice.
        before: names that were given before.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        parts = name.replace("-", "_").split(".")
        if not equals or not all(part.isidentifier() or part.isdecimal() for part in parts):
            faults.append(f"{where} {word}: give name=value, as in {where} {PAIRS_EXAMPLES[where]}")
        elif name in found or name in before:
            faults.append(f"{where} {name} is given twice")
        else:
            found[name] = text
    return found


def add(group: Any, name: str, kind: Any, doc: str, default: Any, metavar: str = "") -> argparse.Action:
    """A flag for a field; its help is the doc line, with the default."""
    if kind is bool:
        text = f"{doc.rstrip('.')} (default: {'on' if default else 'off'})."
        switch: argparse.Action = group.add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=_escaped(text)
        )
        switch.default = default  # not above: argparse would print it too
        return switch
    shown = f"{default:g}" if isinstance(default, float) else default
    text = doc.rstrip(".") + ("" if "(default:" in doc else f" (default: {shown})") + "."
    metavar = metavar or _metavar(kind)
    if len(metavar) > 50:  # a long list of choices follows the help
        text, metavar = f"{text} One of {metavar.strip('{}').replace(',', ', ')}.", "NAME"
    short = SHORT.get(name)
    added: argparse.Action = group.add_argument(
        *([short] if short else []),
        flag(name),
        action=_Value,
        dest=name,
        kind=kind,
        default=default,
        metavar=metavar,
        nargs="+" if list[str] in members(kind) else None,
        help=_escaped(text),
    )
    return added


def add_pairs(
    group: Any, name: str, doc: str, dest: str = "", *, are_points: bool = False, takes_files: bool = False
) -> None:
    """A flag of `name=value` pairs: a dict of them.

    Args:
        group: of the flag.
        name: of the flag, as a setting.
        doc: its help.
        dest: the setting, if that has another name.
        are_points: whether each use of the flag is a dict of its own, in a list.
        takes_files: whether it takes paths of YAML files, too, which are then in `files`.
    """
    group.add_argument(
        flag(name),
        action=_Pairs,
        are_points=are_points,
        takes_files=takes_files,
        dest=dest or name,
        nargs="+",
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
                add_pairs(group, "try", each.doc, each.name, are_points=True)
            else:
                added = add(group, each.name, each.kind, each.doc, each.default, each.metavar)
                added.default = argparse.SUPPRESS


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


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _metavar(kind: Any) -> str:
    kinds = members(kind)
    number = "N" if int in kinds else "X" if float in kinds else ""
    if choices := literals(kind):
        return "{" + ",".join([*([number] if number else []), *choices]) + "}"
    return number or "NAME"
