"""The settings of a new sweep as a form, and the command that it types."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

from sweeps.common.cli.parser import PAIRS_EXAMPLES
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, plain_name, short
from sweeps.common.param_types import literals, members, shown, shown_range
from sweeps.common.settings import Setting
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig, flag
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.kinds import registry

PREFIX = "setting."
"""Begins the name of a field in a form."""
NOT_OFFERED = frozenset(
    {
        # They go on with a sweep, or start none.
        *("resume", "retry", "force", "lr_schedule", "refine_keep", "refine", "dry_run", "submit"),
        # They name a program: the page starts only what the project has.
        *("command", "lightning_cli", "cli_config", "hydra", "hydra_overrides", "notify_command"),
        # A page is there already.
        "dashboard",
    }
)
USED_MOST = [
    "trainable" if word == "trainables" else word.removeprefix("--").replace("-", "_")
    for word in cli.MOST_USED
]
"""Settings in the short help of `sweeps run`."""
PLUG_INS = ("search_space", "searcher", "scheduler", "loggers")
"""Settings that name code of the project or of this program."""
Kind = Literal["text", "number", "choice", "switch", "pairs", "points", "words"]


@dataclass(frozen=True)
class SettingField:
    """A setting in a form."""

    setting: Setting
    kind: Kind
    text: str
    """Its value; "" where the program chooses one."""
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """In the form."""
        return PREFIX + self.setting.name

    @property
    def label(self) -> str:
        """`num trials`"""
        return "try" if self.setting.name == "tries" else self.setting.name.replace("_", " ")

    @property
    def example(self) -> str:
        """What may be typed."""
        if self.kind in ("pairs", "points"):
            name = "--try" if self.kind == "points" else flag(self.setting.name)
            return PAIRS_EXAMPLES.get(name, "").replace(" ", "\n" if self.kind == "pairs" else " ")
        default = self.setting.default
        return "" if default is None or isinstance(default, bool) else short(default)

    @property
    def is_used_most(self) -> bool:
        """Whether it stands among the first."""
        return self.setting.name in USED_MOST

    @property
    def is_changed(self) -> bool:
        """Whether it has another value than its default."""
        return self.text != default_text(self.setting)


def fields(values: Mapping[str, str]) -> list[SettingField]:
    """All settings of the form with these values or their defaults, what is used most first."""
    offered = {name: each for name, each in SweepConfig.settings().items() if name not in NOT_OFFERED}
    names = dict.fromkeys([*(name for name in USED_MOST if name in offered), *offered])
    return [_field(offered[name], values.get(name, default_text(offered[name]))) for name in names]


def _field(setting: Setting, text: str) -> SettingField:
    kind, choices = _kind(setting), tuple(map(str, literals(setting.kind)))
    if setting.name == "trainable":
        choices = tuple(registry.choices())
        text = text or (choices[0] if len(choices) == 1 else "")
    elif kind == "choice" and not default_text(setting):
        choices = ("", *choices)
    return SettingField(setting, kind, text, choices)


def _kind(setting: Setting) -> Kind:
    kinds = members(setting.kind)
    if setting.kind is bool:
        return "switch"
    if setting.name == "tries":
        return "points"
    if get_origin(setting.kind) is dict:
        return "pairs"
    if list[str] in kinds:
        return "words"
    if literals(setting.kind) and not {int, float, str} & set(kinds):
        return "choice"
    return "number" if {int, float} & set(kinds) and str not in kinds else "text"


def default_text(setting: Setting) -> str:
    """The value of a setting that nobody has given."""
    default = setting.default
    if default is None or (isinstance(default, dict | list) and not default):
        return ""
    return text_of(setting, default)


def text_of(setting: Setting, value: Any) -> str:
    """A value of a setting, as it is typed into its field."""
    kind = _kind(setting)
    if value is None:
        return ""
    if kind == "switch":
        return "true" if value else "false"
    if kind == "pairs":
        return "\n".join(shlex.quote(f"{name}={shown_range(each)}") for name, each in value.items())
    if kind == "points":
        return "\n".join(shlex.join(f"{n}={shown(each)}" for n, each in point.items()) for point in value)
    if kind == "words":
        return shlex.join([value] if isinstance(value, str) else value)
    return shown(value)


def texts_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The values of settings, as a file of a sweep holds them, as they are typed into a form."""
    settings = SweepConfig.settings()
    return {
        name: text_of(settings[name], value)
        for name, value in config.items()
        if name in settings and name not in NOT_OFFERED
    }


def posted_texts(posted: Mapping[str, str]) -> dict[str, str]:
    """The settings among the fields of a form that was sent; a switch that is off is not sent."""
    switches = {name: "false" for name, each in SweepConfig.settings().items() if _kind(each) == "switch"}
    found = {name.removeprefix(PREFIX): text for name, text in posted.items() if name.startswith(PREFIX)}
    return {**switches, **{name: text.replace("\r\n", "\n").strip() for name, text in found.items()}}


def words_of(texts: Mapping[str, str], project: Path, kept: Mapping[str, str]) -> list[str]:
    """The words behind `sweeps run` that give these settings, without those that have their default.

    Args:
        texts: setting to its text in the form.
        project: folder in which the command is typed.
        kept: settings of the sweep that is run again, which may name a program that is not in the project.

    Raises:
        UserError: a text can't be divided into words, or names what is not in the project.
    """
    words: list[str] = []
    faults: list[str] = []
    for name, setting in SweepConfig.settings().items():
        text = texts.get(name, "")
        if name in NOT_OFFERED or text in ("", default_text(setting)):
            continue
        try:
            typed = _typed(setting, text)
        except ValueError as error:
            faults.append(f"{flag(name)} {text}: {str(error).lower()}")
            continue
        if name == "trainable":
            known = [*registry.choices(), *shlex.split(kept.get(name, ""))]
            faults += [
                f"{flag(name)} {each}: not in this project. Choices: {', '.join(known) or 'none'}"
                for each in _named(setting, text)
                if each not in known
            ]
        elif name in PLUG_INS and text != kept.get(name):
            faults += [
                f"{flag(name)} {each}: a file outside the project; the page takes none"
                for each in _named(setting, text)
                if _is_outside(each, project)
            ]
        words += typed
    if faults:
        raise UserError("\n".join(faults))
    return words


def _typed(setting: Setting, text: str) -> list[str]:
    """The flag and its values.

    Raises:
        ValueError: the text can't be divided into words, or one of them would be a flag or none at all.
    """
    kind, name = _kind(setting), flag(setting.name)
    if "\0" in text:
        raise ValueError("a value can't have a zero byte")
    if kind == "switch":
        on = f"--{setting.name.replace('_', '-')}"
        return [on if text == "true" else f"--no-{on[2:]}"]
    if kind in ("text", "number", "choice"):
        return [f"{name}={text}"] if text.startswith("-") else [name, text]
    lines = [shlex.split(line) for line in (text.splitlines() if kind == "points" else [text])]
    if any(word.startswith("--") for line in lines for word in line):
        raise ValueError("a value can't begin with --")
    return [word for line in lines if line for word in (name, *line)]


def _named(setting: Setting, text: str) -> list[str]:
    """What a text names; as a flag it may be one word with its value."""
    return shlex.split(text) if _kind(setting) == "words" else [text]


def _is_outside(name: str, project: Path) -> bool:
    if "/" not in name and not name.endswith(".py"):
        return False
    try:
        path = project / Path(name).expanduser()
    except RuntimeError:  # ~NAME of a user who is not there
        return True
    return not path.resolve().is_relative_to(project.resolve())


def shown_command(words: Iterable[str], project: Path) -> str:
    """`sweeps run` with these words in a project, a flag with its values a line, to be pasted in a shell."""
    lines = [command("run", folder=project)]
    for word in map(shlex.quote, words):
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    text = " ".join(lines)
    return " \\\n  ".join(lines) if len(text) > 80 else text


def of_sweep(folder: Path) -> dict[str, str]:
    """The settings of a sweep in a folder, to run it again with changes.

    Raises:
        UserError: its settings can't be read.
    """
    return texts_of(cli.read_yaml(str(folder / SWEEP_FILE), "--config"))


def new_name(trainables: Sequence[str], before: str, now: float) -> str:
    """A name for a sweep that has none: of its trainable and the time, or of the one that it repeats."""
    stem = re.sub(r"-\d{8}-\d{6}(-\d+)?$", "", before) or "-".join(map(registry.short_name, trainables))
    return f"{plain_name(stem, 80) or 'sweep'}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}"
