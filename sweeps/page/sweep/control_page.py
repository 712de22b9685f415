"""The commands of `sweeps control` as buttons and small forms, and what they answer."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from sweeps.common.cli.parser import PAIRS_EXAMPLES
from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.config import control_commands
from sweeps.config.sweep_folder import resume_command
from sweeps.page.page_context import context_of, posted
from sweeps.page.sweep.shown_sweep import ROOT, ShownSweep, shown_sweep
from sweeps.page.typed_commands import TYPED
from sweeps.record import steering
from sweeps.record.steering import NoProcess
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
    needs_process: bool = False
    """Whether it means nothing to a sweep that no process runs."""

    def fields_without(self, trial: str) -> list[Field]:
        """Those that are typed on the page of a trial, or, where that is "", of the sweep."""
        return [field for field in self.fields if not (trial and field.is_trial)]

    @property
    def hint(self) -> str:
        """What it does, as `sweeps control --help` says it."""
        usages = control_commands.COMMANDS.items()
        return "; ".join(does for usage, does in usages if usage.split()[0] == self.command)


FINISHES = "Begin no new trial, and end the sweep after those that train now?"
STOPS = "Stop this trial? It is not tried again."
TRIAL = Field("trial", "Trial", "7", "trial")
TRIAL_OR_NONE = Field("trial", "Trial (empty: the sweep)", "7", "trial or none")
TAGS = Field("tags", "Tags", "baseline good")
FORMS = {
    each.command: each
    for each in (
        Form("pause", "Pause", needs_process=True),
        Form("go", "Continue", needs_process=True),
        Form("finish", "Finish", (), FINISHES, needs_process=True),
        Form("stop", "Stop a trial", (TRIAL,), STOPS, needs_process=True),
        Form("try", "Try a point", (Field("point", "Hyperparameters", PAIRS_EXAMPLES["try"]),)),
        Form("retry", "Try again", (Field("trials", "Trials", "failed"),)),
        Form("set", "Set", (Field("values", "Settings or ranges", PAIRS_EXAMPLES["set"]),)),
        Form("note", "Note", (TRIAL_OR_NONE, Field("text", "Note", kind="text"))),
        Form("tag", "Tag", (TRIAL_OR_NONE, TAGS)),
        Form("untag", "Remove tags", (TRIAL_OR_NONE, TAGS)),
    )
}
"""A form for each command of `control_commands.COMMANDS`."""


def offered(status: str) -> list[Form]:
    """The forms that a sweep of a status takes."""
    left_out = {"pause"} if status == Outcome.PAUSED else {"go"}
    if status not in (Outcome.RUNNING, Outcome.PAUSED, Outcome.WAITING):
        left_out = {name for name, form in FORMS.items() if form.needs_process}
    return [form for name, form in FORMS.items() if name not in left_out]


def words_of(name: str, form: Mapping[str, str]) -> list[str]:
    """The words of a command, as they would be typed behind `sweeps control NAME`, by the fields of its form.

    Raises:
        UserError: there is no such command, or its words do not fit; every fault, one a line.
    """
    words = [name]
    for field in FORMS[name].fields if name in FORMS else ():
        text = form.get(field.input, "").strip()
        if field.kind == "text":
            words.append(text)
        elif field.kind == "words":
            words += _split(name, text)
        else:
            if text and control_commands.number_of_trial(text) is None:
                other = ", or nothing for the sweep" if field.kind == "trial or none" else ""
                raise UserError(f"{name} {text}: give the number of one trial{other}")
            words.append(text)
    control_commands.parse(words)
    return words


def _split(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{name} {text}: {str(error).lower()}") from None


async def control(request: web.Request) -> web.Response:
    """Ask the sweep for what was typed into a form."""
    sweep, form = await shown_sweep(request), await posted(request)
    words = [form.get("command", "")]
    try:
        words = words_of(words[0], form)
        answer = await asyncio.to_thread(steering.steer, sweep.listed.folder, words)
    except NoProcess as error:
        resume = resume_command(sweep.listed.folder, *error.flags)
        why = error.why.rstrip().removesuffix(":") + ":"
        return _answer(request, sweep, words, why, is_refused=True, resume=resume)
    except (UserError, OSError) as error:
        return _answer(request, sweep, words, str(error), is_refused=True)
    return _answer(request, sweep, words, answer.text, is_refused=answer.is_refused)


async def go_on(request: web.Request) -> web.Response:
    """Start the resume that does what a command asks of a sweep that no process runs; the command line says
    which one that is."""
    sweep = await shown_sweep(request)
    words, folder = _posted_words((await posted(request)).get("words", "")), sweep.listed.folder
    try:
        found = await asyncio.to_thread(steering.how_to_go_on, folder, words)
        if found is None:
            why = "A process runs this sweep: press the button again."
            return _answer(request, sweep, words, why, is_refused=True)
        typed = ["run", "--resume", str(folder), *found.flags]
        started = request.app[TYPED].start(typed, folder.name, sweep.project)
    except (UserError, OSError) as error:
        return _answer(request, sweep, words, str(error), is_refused=True)
    text = "It is starting, in a process of its own: it goes on when this page is closed."
    return _answer(request, sweep, typed, text, started=started)


def _posted_words(text: str) -> list[str]:
    """The words of a command that the page itself has put into a form.

    Raises:
        HTTPBadRequest: they are none.
    """
    try:
        words = json.loads(text) if text else []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError
        if words:
            control_commands.parse(words)
    except (ValueError, RecursionError, UserError):
        raise web.HTTPBadRequest(text="These are no words of a command.") from None
    return words


def _answer(
    request: web.Request,
    sweep: ShownSweep,
    words: Sequence[str],
    text: str,
    *,
    is_refused: bool = False,
    resume: str = "",
    started: Any = None,
) -> web.Response:
    typed = command(*words) if started else shlex.join(["control", sweep.listed.key, *words])
    return context_of(request).html(
        request,
        "answer.html",
        sweep=sweep,
        words=json.dumps([*words]),
        typed=typed,
        text=text,
        is_refused=is_refused,
        resume=resume,
        started=started,
    )


ROUTES = [web.post(f"{ROOT}/control", control), web.post(f"{ROOT}/go-on", go_on)]
