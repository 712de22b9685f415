"""The words of a command, and the values of a trial in the place of its placeholders.

The command is split once, as a shell would do it, and values are put into its words: none can become more
than one word, or a command of a shell.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.common.param_types import nested

CHECKPOINT_DIR = "checkpoint_dir"
VARIABLES = {
    "max_epochs": "SWEEPS_MAX_EPOCHS",
    "seed": "SWEEPS_SEED",
    "trial": "SWEEPS_TRIAL",
    CHECKPOINT_DIR: "SWEEPS_CHECKPOINT_DIR",
    "work_dir": "SWEEPS_WORK_DIR",
}
"""Placeholders of the trial, which are no hyperparameters, to the variables of the environment that have the
same value."""
MOST_SHOWN = 60
"""Characters of a command in a line of text."""
ARGS_FILE = "sweeps-args.json"
"""In the working folder, for `{args_json_file}`."""
_ANY = re.compile(r"\{\{(?:([^{}]*)\}\})?|\{([A-Za-z_][\w./@-]*)(?::([^{}]*))?\}")
"""`{{`, `{{text}}` or `{name}`, of those for all hyperparameters also `{name:a,b}`."""
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
"""A part of a command in quotes, or a character behind a backslash."""
INSIDE = "/"
"""In the name of a hyperparameter that is a part of another one: `optimizer/lr`."""


def _joined(before: str) -> Callable[[Mapping[str, Any]], list[str]]:
    return lambda values: [f"{before}{name}={value}" for name, value in values.items()]


def _flags_of_booleans(values: Mapping[str, Any]) -> list[str]:
    """As W&B has them: a flag alone is true, and none is false."""
    kept = {name: value for name, value in values.items() if value is not False}
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in kept.items()]


OF_ALL: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "args": _joined("--"),
    "args_no_boolean_flags": _flags_of_booleans,
    "args_no_equals": lambda values: [word for name in values for word in (f"--{name}", str(values[name]))],
    "args_no_hyphens": _joined(""),
    "args_append_hydra": _joined("+"),
    "args_override_hydra": _joined("++"),
    "args_json": lambda values: [json.dumps(values)],
    "args_json_file": lambda values: [],
    "wandb_config": lambda values: [],
}
"""Placeholders that stand for all hyperparameters, to the words that they become: those of W&B's sweeps, and
one for a program that reads them from `wandb.config` alone.
https://docs.wandb.ai/models/sweeps/sweep-config-keys#command-macros"""


@dataclass(frozen=True)
class CommandWords:
    """The words of a command."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, command: str) -> CommandWords:
        """Of a command as it was typed.

        Raises:
            ValueError: a quotation is not closed.
        """
        words = shlex.split(_QUOTED.sub(_in_one_line, command))
        return cls(tuple(w.replace("~", str(Path.home()), 1) if w.startswith("~/") else w for w in words))

    @cached_property
    def placeholders(self) -> tuple[str, ...]:
        """Names in braces, each once."""
        return tuple(dict.fromkeys(name for word in self.words for name, _ in _in(word)))

    @cached_property
    def hyperparameters(self) -> tuple[str, ...]:
        """Those that the command takes."""
        found: list[str] = []
        for word in self.words:
            for name, names in _in(word):
                found += names.split(",") if name in OF_ALL and names else []
                found += [] if name in (*OF_ALL, *VARIABLES) else [name]
        return tuple(dict.fromkeys(found))

    def faults(self) -> list[str]:
        """What is wrong with its placeholders."""
        faults = []
        for word in self.words:
            for name, names in _in(word):
                if name not in OF_ALL and names is not None:
                    faults.append(f"{{{name}:{names}}}: only {', '.join(OF_ALL)} take names")
                elif name in OF_ALL and not names:
                    faults.append(f"{{{name}}}: name its hyperparameters, as in {{{name}:lr,batch_size}}")
                elif name in OF_ALL and _ANY.fullmatch(word) is None:
                    such = f", as in bash -c '... \"$@\"' bash {{{name}}}" if name.startswith("args") else ""
                    faults.append(f"{word}: {{{name}}} must be a word of its own{such}")
        return faults

    def filled(self, values: Mapping[str, Any], of_trial: Mapping[str, str], folder: Path) -> list[str]:
        """The words of a trial; the file of `{args_json_file}` is written.

        Args:
            values: of the hyperparameters.
            of_trial: values of the placeholders in `VARIABLES`.
            folder: for that file.
        """
        found: list[str] = []
        texts = {name: _text(value) for name, value in values.items()} | dict(of_trial)
        for word in self.words:
            (name, names), *_ = [*_in(word), ("", None)]
            if name not in OF_ALL:
                found.append(_ANY.sub(lambda match: _put(match, texts), word))
                continue
            named = nested({each: values[each] for each in (names or "").split(",")}, INSIDE)
            found += OF_ALL[name](named)
            if name == "args_json_file":
                file = folder / ARGS_FILE
                file.unlink(missing_ok=True)  # in a working folder, a link to one of the project
                file.write_text(json.dumps(named))
                found.append(str(file))
        return found


def with_names(command: str, names: Sequence[str]) -> str:
    """A command in which `{args}` and its like name the hyperparameters that they stand for."""

    def named(match: re.Match[str]) -> str:
        is_bare = match[2] in OF_ALL and match[3] is None and names
        return f"{{{match[2]}:{','.join(names)}}}" if is_bare else match[0]

    return _ANY.sub(named, command)


def shown(command: str) -> str:
    """A command for a line of text: without the names behind `{args:...}`, and not too long."""
    bare = _ANY.sub(lambda match: f"{{{match[2]}}}" if match[2] in OF_ALL else match[0], command)
    return textwrap.shorten(bare, MOST_SHOWN, placeholder=" ...")


def short_name(command: str) -> str:
    """`train` of `python train.py --lr {lr}`, for the name of a folder."""
    words = command.split()
    scripts = [word for word in words if re.search(r"\w\.(py|sh|R|jl|js|pl|rb)$", word)]
    modules = [after for word, after in itertools.pairwise(words) if word == "-m"]
    first = [*scripts[:1], *modules[:1], *words[:1], "command"][0]
    return Path(first).stem if scripts else first.rpartition("/")[2].rpartition(".")[2]


def _in_one_line(match: re.Match[str]) -> str:
    """A part of a command that goes on in the next line by a backslash, as of a shell: not within '...'."""
    if match[0].startswith("'"):
        return match[0]
    return re.sub(r"(\\[^\n])|\\\n", lambda each: each[1] or "", match[0])


def _in(word: str) -> list[tuple[str, str | None]]:
    """Name of each placeholder of a word, and the names behind its colon."""
    return [(match[2], match[3]) for match in _ANY.finditer(word) if match[2]]


def _put(match: re.Match[str], texts: Mapping[str, str]) -> str:
    if match[2]:
        return texts[match[2]]
    return "{" if match[1] is None else f"{{{match[1]}}}"


def _text(value: Any) -> str:
    """A value as most programs read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
