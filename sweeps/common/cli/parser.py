"""Flags of the commands, made from fields and their doc lines.

argparse splits the words. This file adds `--num-trials` for `num_trials`, `--params name=value`, values in
the types of the fields, and all mistakes at once, one a line, with the nearest spelling.
"""

from __future__ import annotations

import argparse
import functools
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NoReturn, get_origin

from sweeps.common.cli import json_output
from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.formatting import command
from sweeps.common.local_dirs import DATA_DIR_VARIABLE, GPUS, PREPARED_DIR_VARIABLE
from sweeps.common.param_types import literals, members
from sweeps.common.settings import Setting, flag, grouped, typed
from sweeps.common.yaml_values import closest, hyperparameter

SHORT = {"num_trials": "-n", "max_concurrent": "-j"}
"""Flags that are typed most, by setting."""
PAIRS_EXAMPLES = {
    "--params": "rows=0 width=16",
    "--ranges": "lr=1e-4..1e-1:log width=16,32",
    "--freeze": "lr=0.03",
    "--prior": "lr=1e-3:2 width=16",
    "--try": "lr=0.1 batch_size=64",
    "try": "lr=0.1 batch_size=64",
    "set": "num-trials=48 lr=1e-4..1e-2:log",
}

HELP_COLUMN = 28
"""At which the help of flags begins, at most."""


class Parser(argparse.ArgumentParser):
    """Raises a UserError for mistakes; argparse would end the process."""

    def __init__(self, prog: str, usage: str, description: str, examples: Sequence[str] = ()) -> None:
        """A parser of one command.

        Args:
            prog: the command, as `sweeps run`.
            usage: its words; `%(prog)s` is the command.
            description: for the help.
            examples: for the help: the words behind the command.
        """
        words = prog.split()[1:]
        lines = [f"  {command(*words, *shlex.split(example))}" for example in examples]
        super().__init__(
            prog=command(*words),
            usage=usage,
            description="\n".join([wrapped(description), *(["", *lines] if lines else [])]),
            formatter_class=functools.partial(argparse.RawTextHelpFormatter, max_help_position=HELP_COLUMN),
            allow_abbrev=False,
            exit_on_error=False,
            add_help=False,
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")  # argparse lacks -1e-3
        self.faults: list[str] = []
        """Of the values that are read."""
        self.add_argument("-h", "--help", action="help", help="Show this help and exit.")
        self.add_argument(
            json_output.FLAG, action="store_true", default=argparse.SUPPRESS, help=json_output.HELP
        )

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    @property
    def flags(self) -> set[str]:
        """All flags by now."""
        return set(self._option_string_actions)

    def show_only(self, names: Container[str]) -> None:
        """Leave all but these flags out of the help, and all but the first sentence of each."""
        for action in self._actions:
            is_shown = any(name in names for name in action.option_strings or [action.dest])
            first = str(action.help).partition(". ")[0].removesuffix(".")
            action.help = f"{first}." if is_shown else argparse.SUPPRESS

    def format_help(self) -> str:
        """The help, broken between words alone: argparse would break at the hyphens of flags, too."""
        columns = max(20, shutil.get_terminal_size().columns - 2 - HELP_COLUMN)
        for action in self._actions:
            if action.help and action.help != argparse.SUPPRESS:
                action.help = textwrap.fill(action.help, columns, break_on_hyphens=False)
        return super().format_help()

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
        json_output.turn_on_where_asked(tokens)
        known = self._option_string_actions
        names = [token.partition("=")[0] for token in tokens if token.startswith("--")]
        if faults := [_no_flag(name, known) for name in names if name not in known]:
            refuse([*faults, f"All flags: {self.prog} {'--help-all' if '--help-all' in known else '--help'}"])
        words = []
        for token in tokens:
            name, equals, value = token.partition("=")
            takes_several = equals and name in known and known[name].nargs in ("+", "*")
            words += [name, value] if takes_several else [token]
        try:
            values, strays = self.parse_known_intermixed_args(words)
        except argparse.ArgumentError as error:
            flags = str(error.argument_name).split("/")  # -n/--num-trials, --compile/--no-compile
            name = next((each for each in flags if each.startswith("--")), flags[0])
            raise UserError(f"{name}: {error.message}") from None
        refuse([*(f"{stray}: not a flag{hint}" for stray in strays), *self.faults])
        return values


def wrapped(text: str, indent: str = "") -> str:
    """A text in lines as wide as the terminal, the first one behind `indent`, the others below its end."""
    below, columns = " " * len(indent), max(20, shutil.get_terminal_size().columns - 2)
    return textwrap.fill(
        text, columns, initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )


def listed(entries: Mapping[str, str]) -> str:
    """Names and what each is, in two columns."""
    width = max(map(len, entries)) + 2
    return "\n".join(wrapped(text, f"  {name:<{width}}") for name, text in entries.items())


def _no_flag(name: str, known: Iterable[str]) -> str:
    bare, names = name.lstrip("-"), {each.lstrip("-"): each for each in known}
    if "." in name:  # as the program of a LightningCLI takes it
        return f"{name}: no such flag. A hyperparameter is given as --params {bare}=VALUE"
    if near := closest(bare, names):
        return f"{name}: no such flag. Did you mean '{names[near]}'?"
    if "ranges" not in names:
        return f"{name}: no such flag."
    pair = bare.replace("-", "_")
    fixed, swept = f"--params {pair}=VALUE", f"--ranges {pair}=LOW..HIGH"
    return f"{name}: no such flag. A fixed hyperparameter is given as {fixed}, a range of one as {swept}"


class _Value(argparse.Action):
    """Sets a value, or a list of several, in the type of the setting. A flag that is typed again adds to the
    list."""

    def __init__(self, *, kind: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self._kind = kind

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        with collecting(parser.faults):
            value = typed(str(option_string), self._kind, values)
            before = getattr(namespace, self.dest, None) if isinstance(value, list) else None
            setattr(namespace, self.dest, [*before, *value] if isinstance(before, list) else value)


class _Pairs(argparse.Action):
    """Adds `name=value` pairs to those that were given before, or each time as a point of their own."""

    def __init__(self, *, are_points: bool, file_of: Callable[[str], str], **settings: Any) -> None:
        super().__init__(**settings)
        self._are_points, self._file_of = are_points, file_of

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        before: Any = getattr(namespace, self.dest, [] if self._are_points else {})
        files = {word: file for word in values if (file := self._file_of(word))}
        words = [word for word in values if word not in files]
        texts = named_texts(words, str(option_string), parser.faults, [] if self._are_points else before)
        pairs = {name: hyperparameter(text) for name, text in texts.items()}
        setattr(namespace, self.dest, [*before, pairs] if self._are_points else before | pairs)
        if files:
            namespace.files = [*getattr(namespace, "files", []), *files.values()]


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
        parts = name.replace("-", "_").replace("/", ".").split(".")
        if not equals or not all(part.isidentifier() or part.isdecimal() for part in parts):
            faults.append(f"{where} {word}: give name=value, as in {where} {PAIRS_EXAMPLES[where]}")
        elif name in found or name in before:
            faults.append(f"{where} {name} is given twice")
        else:
            found[name] = text
    return found


def add(
    group: Any,
    name: str,
    kind: Any,
    doc: str,
    default: Any,
    metavar: str = "",
    *,
    may_be_bare: bool = False,
) -> argparse.Action:
    """A flag for a field; its help is the doc line, with the default.

    Args:
        group: of the flag.
        name: of the field.
        kind: its type.
        doc: its help.
        default: of the field.
        metavar: name of the value in the help; "": by the type.
        may_be_bare: whether it may be typed without a value, which is then None, or an empty list.
    """
    if kind is bool:
        return _add_switch(group, name, doc, default)
    shown = f"{default:g}" if isinstance(default, float) else default
    text = doc.rstrip(".") + ("" if "(default:" in doc else f" (default: {shown})") + "."
    metavar = metavar or _metavar(kind)
    if len(metavar) > 50:  # a long list of choices follows the help
        text, metavar = f"{text} One of {metavar.strip('{}').replace(',', ', ')}.", "NAME"
    short, takes_several = SHORT.get(name), list[str] in members(kind)
    number = ("*" if takes_several else "?") if may_be_bare else "+" if takes_several else None
    added: argparse.Action = group.add_argument(
        *([short] if short else []),
        flag(name),
        action=_Value,
        dest=name,
        kind=kind,
        default=default,
        metavar=metavar,
        nargs=number,
        help=_escaped(text),
    )
    return added


def _add_switch(group: Any, name: str, doc: str, default: bool) -> argparse.Action:
    """A flag and its opposite; the help of one that is off does not name that."""
    text = _escaped(f"{doc.rstrip('.')} (default: on)." if default else doc)
    absent: Any = argparse.SUPPRESS
    if default:
        action: argparse.Action = group.add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=absent, help=text
        )
    else:
        action = group.add_argument(flag(name), action="store_true", default=absent, help=text)
        group.add_argument(
            f"--no-{flag(name)[2:]}", action="store_false", dest=name, default=absent, help=argparse.SUPPRESS
        )
    action.default = default  # not above: argparse would print it too
    return action


def add_pairs(
    group: Any,
    name: str,
    doc: str,
    dest: str = "",
    *,
    are_points: bool = False,
    file_of: Callable[[str], str] = lambda word: "",
) -> None:
    """A flag of `name=value` pairs: a dict of them.

    Args:
        group: of the flag.
        name: of the flag, as a setting.
        doc: its help.
        dest: the setting, if that has another name.
        are_points: whether each use of the flag is a dict of its own, in a list.
        file_of: the path of the YAML file that a word names, "" of a pair; they are then in `files`.
    """
    group.add_argument(
        flag(name),
        action=_Pairs,
        are_points=are_points,
        file_of=file_of,
        dest=dest or name,
        nargs="+",
        default=argparse.SUPPRESS,
        metavar="NAME=VALUE",
        help=_escaped(doc),
    )


def add_settings(
    parser: Parser, settings: Iterable[Setting], groups: Mapping[str, Any] | None = None
) -> None:
    """Flags for settings, under their titles or in groups that are there. Only those that are typed have a
    value."""
    for title, entries in grouped(settings).items():
        group = (groups or {}).get(title) or parser.add_argument_group(title)
        for each in entries:
            if get_origin(each.kind) is dict:
                add_pairs(group, each.name, each.doc)
            elif each.name == "tries":
                add_pairs(group, "try", each.doc, each.name, are_points=True)
            else:
                about = (each.name, each.kind, each.doc, each.default, each.metavar)
                added = add(group, *about, may_be_bare=each.may_be_bare)
                added.default = argparse.SUPPRESS


def add_machine(parser: Parser, *, gpus: bool = True) -> None:
    """Flags for the folders of this machine, and for its GPUs, which no file of settings holds."""
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
    if gpus:
        add_gpus(machine)


def add_gpus(group: Any) -> None:
    """The flag that chooses GPUs, for `local_dirs.use_gpus`."""
    group.add_argument(
        GPUS,
        metavar="N,N|UUID",
        help="GPUs to use: numbers as nvidia-smi shows them, or the beginnings of their UUIDs; none: train "
        "on the CPU (default: all that $CUDA_VISIBLE_DEVICES shows).",
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _metavar(kind: Any) -> str:
    kinds = members(kind)
    number = "N" if int in kinds else "X" if float in kinds else ""
    if choices := literals(kind):
        return "{" + ",".join([*([number] if number else []), *choices]) + "}"
    return number or "NAME"
