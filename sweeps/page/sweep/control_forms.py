"""The commands of `sweeps control` as buttons and small forms, each with the same words."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from sweeps.common.cli.parser import PAIRS_EXAMPLES
from sweeps.common.errors import UserError
from sweeps.config import control_commands
from sweeps.record.sweep_info import Outcome

PREFIX = "word."
"""Begins the name of a field in a form, so that none has the name of another parameter."""


@dataclass(frozen=True)
class Field:
    """What is typed into a form."""

    name: str
    label: str
    example: str = ""
    kind: Literal["words", "text", "trial", "trial or none"] = "words"
    """words: several, as in a shell; text: one, with its spaces and lines; trial: the number of one."""

    @property
    def input(self) -> str:
        """Its name in the form."""
        return PREFIX + self.name

    @property
    def is_trial(self) -> bool:
        """Whether the page of a trial knows it."""
        return self.kind in ("trial", "trial or none")


@dataclass(frozen=True)
class Form:
    """A command as a button, with the fields that its words come from."""

    command: str
    """Its first word."""
    button: str
    fields: tuple[Field, ...] = ()
    question: str = ""
    """Asked once before a command that can't be taken back."""
    needs_process: bool = True
    """Whether it means nothing to a sweep that no process runs."""

    def fields_without(self, trial: str) -> list[Field]:
        """Those that are typed on the page of a trial, or, where that is "", of the sweep."""
        return [field for field in self.fields if not (trial and field.is_trial)]

    @property
    def hint(self) -> str:
        """What it does, as `sweeps control --help` says it."""
        usages = control_commands.COMMANDS.items()
        return "; ".join(does for usage, does in usages if usage.split()[0] == self.command)


TRIAL = Field("trial", "Trial", "7", "trial")
TRIAL_OR_NONE = Field("trial", "Trial (empty: the sweep)", "7", "trial or none")
TAGS = Field("tags", "Tags", "baseline good")
FORMS = {
    each.command: each
    for each in (
        Form("pause", "Pause"),
        Form("go", "Continue"),
        Form(
            "finish", "Finish", question="Begin no new trial, and end the sweep after those that train now?"
        ),
        Form("stop", "Stop a trial", (TRIAL,), "Stop this trial? It is not tried again."),
        Form(
            "try",
            "Try a point",
            (Field("point", "Hyperparameters", PAIRS_EXAMPLES["try"]),),
            needs_process=False,
        ),
        Form("retry", "Try again", (Field("trials", "Trials", "failed"),), needs_process=False),
        Form(
            "set",
            "Set",
            (Field("values", "Settings or ranges", PAIRS_EXAMPLES["set"]),),
            needs_process=False,
        ),
        Form("note", "Note", (TRIAL_OR_NONE, Field("text", "Note", kind="text")), needs_process=False),
        Form("tag", "Tag", (TRIAL_OR_NONE, TAGS), needs_process=False),
        Form("untag", "Remove tags", (TRIAL_OR_NONE, TAGS), needs_process=False),
    )
}
"""A form for each command of `control_commands.COMMANDS`."""


def offered(status: str) -> list[Form]:
    """The forms that a sweep of a status takes."""
    is_paused = status == Outcome.PAUSED
    left_out = {"pause"} if is_paused else {"go"}
    if status not in (Outcome.RUNNING, Outcome.PAUSED, Outcome.WAITING):
        left_out = {name for name, form in FORMS.items() if form.needs_process}
    return [form for name, form in FORMS.items() if name not in left_out]


def words_of(command: str, posted: Mapping[str, str]) -> list[str]:
    """The words of a command, as they would be typed behind `sweeps control NAME`.

    Args:
        command: its first word.
        posted: the fields of its form.

    Raises:
        UserError: there is no such command, or its words do not fit; every fault, one a line.
    """
    words = [command]
    for field in FORMS[command].fields if command in FORMS else ():
        text = posted.get(field.input, "").strip()
        if field.kind == "text":
            words.append(text)
        elif field.kind == "words":
            words += _split(command, text)
        else:
            if text and control_commands.number_of_trial(text) is None:
                other = ", or nothing for the sweep" if field.kind == "trial or none" else ""
                raise UserError(f"{command} {text}: give the number of one trial{other}")
            words.append(text)
    control_commands.parse(words)
    return words


def missing(names: Collection[str] = control_commands.NAMES) -> list[str]:
    """Commands that have no form."""
    return [name for name in names if name not in FORMS]


def _split(command: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{command} {text}: {str(error).lower()}") from None
