"""The answers to the buttons of a sweep: those of `sweeps control`, and how an ended sweep goes on."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from sweeps.common.errors import UserError
from sweeps.common.formatting import command
from sweeps.config import control_commands
from sweeps.config.sweep_folder import resume_command
from sweeps.page.page_context import context_of
from sweeps.page.sweep import control_forms
from sweeps.page.sweep.shown_sweep import ROOT, ShownSweep, shown_sweep
from sweeps.page.typed_commands import STARTED
from sweeps.record import steering
from sweeps.record.steering import NoProcess


async def control(request: web.Request) -> web.Response:
    """Ask the sweep for what was typed into a form."""
    sweep = await shown_sweep(request)
    posted = {name: text for name, text in (await request.post()).items() if isinstance(text, str)}
    given = posted.get("command", "")
    try:
        words = control_forms.words_of(given, posted)
    except UserError as error:
        return _answer(request, sweep, [given], str(error), is_refused=True)
    try:
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
    sweep, posted = await shown_sweep(request), await request.post()
    words = _words(posted.get("words"))
    found = await asyncio.to_thread(steering.how_to_go_on, sweep.listed.folder, words)
    if found is None:
        return _answer(
            request, sweep, words, "A process runs this sweep: press the button again.", is_refused=True
        )
    folder = sweep.listed.folder
    typed = ["run", "--resume", str(folder), *found.flags]
    try:
        started = request.app[STARTED].start(typed, folder.name, sweep.project)
    except OSError as error:
        return _answer(request, sweep, words, str(error), is_refused=True)
    text = "It is starting, in a process of its own: it goes on when this page is closed."
    return _answer(request, sweep, typed, text, started=started)


def _words(text: object) -> list[str]:
    """The words of a command that the page itself has put into a form.

    Raises:
        HTTPBadRequest: they are none.
    """
    try:
        words = json.loads(str(text)) if text else []
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
    content: dict[str, Any] = {"sweep": sweep, "words": json.dumps([*words]), "typed": typed, "text": text}
    return context_of(request).html(
        request, "answer.html", is_refused=is_refused, resume=resume, started=started, **content
    )


ROUTES = [web.post(f"{ROOT}/control", control), web.post(f"{ROOT}/go-on", go_on)]
