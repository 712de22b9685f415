"""The page *Start*: a form of the settings, the command that it types, and what the program says to that."""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.page.page_context import CHANGING, NAVIGATION, context_of
from sweeps.page.start import settings_form
from sweeps.page.sweep import trial_log
from sweeps.page.sweep.shown_sweep import path_of, shown_sweep
from sweeps.page.typed_commands import CHECKS, STARTED

FORM = re.compile(r"[0-9a-f]{16}")
SECONDS = re.compile(r"\d{1,11}")
MOST_STARTED = 10
NAVIGATION["/start"] = "Start"
CHANGING.add("/start")


@dataclass(frozen=True)
class Typed:
    """A form, as the command that it types."""

    words: tuple[str, ...]
    name: str
    """Of the sweep."""
    folder: Path
    """Of the project."""
    is_own: bool
    """Whether it runs no code outside of the page's own project."""


async def show(request: web.Request) -> web.Response:
    """The form: empty, or with the settings of a sweep to run it again with changes."""
    page, values, fault, is_own, now = context_of(request), dict[str, str](), "", True, int(time.time())
    if page.is_read_only:
        raise web.HTTPNotFound(text="This page is read-only (--read-only): it starts no sweep.")
    again = request.query.get("again", "")
    if again:
        try:
            values, folder = await _again(request, again)
            is_own = _is_own(values, folder)
        except UserError as error:
            fault = str(error)
    trainables = shlex.split(values.get("trainable", ""))
    values["name"] = settings_form.new_name(trainables, values.get("name", ""), now)
    fields = settings_form.fields(values)
    groups: dict[str, list[settings_form.SettingField]] = {}
    for field in fields:
        if not settings_form.are_used_most(field.setting.name):
            groups.setdefault(field.setting.group, []).append(field)
    return page.html(
        request,
        "start.html",
        first=[field for field in fields if settings_form.are_used_most(field.setting.name)],
        groups=groups,
        again=again,
        form=secrets.token_hex(8),
        now=now,
        is_own=is_own,
        fault=fault,
        started=request.app[STARTED].every()[:MOST_STARTED],
        path_of=path_of,
    )


async def check(request: web.Request) -> web.Response:
    """The command that the form types, and what the program says to it."""
    page, posted = context_of(request), await _posted(request)
    form = posted.get("form", "")
    if not FORM.fullmatch(form):
        raise web.HTTPBadRequest(text="This form is not of this page.")
    try:
        typed = await _typed(request, posted)
    except UserError as error:
        return page.html(request, "checked.html", command="", said=str(error), status_of_check=2)
    command = settings_form.shown_command(typed.words[1:], typed.folder)
    if not typed.is_own and "asked" not in posted:
        said = "It runs code that is not in this page's own project: press Check for its plan."
        return page.html(request, "checked.html", command=command, said=said, status_of_check=None)
    try:
        status, said = await request.app[CHECKS].check(form, typed.words, typed.folder)
    except OSError as error:  # such as too long a command
        status, said = 2, str(error)
    shown = trial_log.shown(said.encode())
    return page.html(request, "checked.html", command=command, said=shown, status_of_check=status)


async def start(request: web.Request) -> web.Response:
    """Start what the form says."""
    page, posted = context_of(request), await _posted(request)
    try:
        typed = await _typed(request, posted)
        started = request.app[STARTED].start(typed.words, typed.name, typed.folder)
    except (UserError, OSError) as error:
        return page.html(request, "checked.html", command="", said=str(error), status_of_check=2)
    raise web.HTTPSeeOther(f"/started/{started.key}")


async def show_started(request: web.Request) -> web.Response:
    """What a command has printed that the page has started, and the way to its sweep."""
    page = context_of(request)
    started = request.app[STARTED].get(request.match_info["start"])
    if started is None:
        raise web.HTTPNotFound(text="The page knows no such start.")
    await page.look()
    key = next((key for key, each in page.sweeps.sweeps.items() if each.folder.name == started.name), "")
    return page.html(
        request,
        "started.html",
        started=started,
        command=settings_form.shown_command(started.words[1:], started.folder),
        printed=trial_log.end_of(started.log),
        key=key,
        path_of=path_of,
    )


async def started_events(request: web.Request) -> web.StreamResponse:
    """Tell it that more was printed, or that its sweep is there."""
    page, started = context_of(request), request.app[STARTED].get(request.match_info["start"])
    if started is None:
        raise web.HTTPNotFound(text="The page knows no such start.")

    def versions() -> Mapping[str, str]:
        is_listed = any(each.folder.name == started.name for each in page.sweeps.sweeps.values())
        request.app[STARTED].get(started.key)  # takes the status of one that has ended
        return {"changed": f"{started.printed_bytes}-{started.is_running}-{is_listed}"}

    return await page.stream(request, versions)


async def _posted(request: web.Request) -> dict[str, str]:
    return {name: text for name, text in (await request.post()).items() if isinstance(text, str)}


async def _typed(request: web.Request, posted: Mapping[str, str]) -> Typed:
    """The command of a form.

    Raises:
        UserError: it can't be typed.
    """
    texts, kept, folder = settings_form.posted_texts(posted), dict[str, str](), project.folder()
    if again := posted.get("again", ""):
        kept, folder = await _again(request, again)
    words = settings_form.words_of(texts, folder, kept)
    if not (name := texts.get("name", "")):  # of when the form was opened: what is checked is what starts
        opened = posted.get("opened", "")
        now = int(opened) if SECONDS.fullmatch(opened) else time.time()
        name = settings_form.new_name(shlex.split(texts.get("trainable", "")), "", now)
        words += ["--name", name]
    return Typed(("run", *words), name, folder, _is_own(texts, folder))


async def _again(request: web.Request, key: str) -> tuple[dict[str, str], Path]:
    """The settings of a sweep that is run again, and the folder of its project.

    Raises:
        UserError: its settings can't be read.
    """
    before = await shown_sweep(request, key)
    return settings_form.of_sweep(before.listed.folder), before.project


def _is_own(texts: Mapping[str, str], folder: Path) -> bool:
    """Whether settings run no code outside of the page's own project."""
    try:
        settings_form.words_of(texts, project.folder(), {})
    except UserError:
        return False
    return folder.resolve() == project.folder().resolve()


ROUTES = [
    web.get("/start", show),
    web.post("/start", start),
    web.post("/start/check", check),
    web.get("/started/{start}", show_started),
    web.get("/started/{start}/events", started_events),
]
