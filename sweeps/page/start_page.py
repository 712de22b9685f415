"""The page *Start*: a form of the settings, the command that it types, and what the program says to that."""

from __future__ import annotations

import itertools
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, shown_path
from sweeps.config.sweep_folder import RESULTS, sweeps_in
from sweeps.page import settings_form
from sweeps.page.page_context import PageContext, context_of, posted
from sweeps.page.sweep import trial_log
from sweeps.page.sweep.shown_sweep import shown_sweep
from sweeps.page.sweep_list import ListedSweep
from sweeps.page.typed_commands import TYPED, TypedCommand, dry_run

SECONDS = re.compile(r"\d{1,11}")
MOST_STARTED = 10


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
        if not field.is_used_most:
            groups.setdefault(field.setting.group, []).append(field)
    return page.html(
        request,
        "start.html",
        first=[field for field in fields if field.is_used_most],
        groups=groups,
        again=again,
        now=now,
        is_own=is_own,
        fault=fault,
        started=[each for each in request.app[TYPED].every() if each.name][:MOST_STARTED],
    )


async def check(request: web.Request) -> web.Response:
    """The command that the form types, and what the program says to it."""
    page, form = context_of(request), await posted(request)
    try:
        typed = await _typed(request, form)
    except UserError as error:
        return page.html(request, "checked.html", command="", said=str(error), status_of_check=2)
    shown = settings_form.shown_command(typed.words[1:], typed.folder)
    if not typed.is_own and "asked" not in form:
        said = "It runs code that is not in this page's own project: press Check for its plan."
        return page.html(request, "checked.html", command=shown, said=said, status_of_check=None)
    try:
        status, said = await dry_run(typed.words, typed.folder)
    except OSError as error:  # such as too long a command
        status, said = 2, str(error)
    said = trial_log.shown(said.encode())
    return page.html(request, "checked.html", command=shown, said=said, status_of_check=status)


async def start(request: web.Request) -> web.Response:
    """Start what the form says."""
    page, form = context_of(request), await posted(request)
    try:
        typed = await _typed(request, form)
        started = request.app[TYPED].start(typed.words, typed.name, typed.folder)
    except (UserError, OSError) as error:
        return page.html(request, "checked.html", command="", said=str(error), status_of_check=2)
    raise web.HTTPSeeOther(f"/started/{started.key}")


async def show_started(request: web.Request) -> web.Response:
    """What a command has printed that the page has started, and the way to its sweep."""
    page, started = context_of(request), _started(request)
    await page.look()
    return page.html(
        request,
        "started.html",
        started=started,
        command=settings_form.shown_command(started.words[1:], started.folder),
        printed=trial_log.end_of(started.log),
        sweep=_sweep_of(started, page),
        elsewhere=_page_elsewhere(started, page),
    )


async def started_events(request: web.Request) -> web.StreamResponse:
    """Tell it that more was printed, or that its sweep is there."""
    page, started = context_of(request), _started(request)

    def versions() -> Mapping[str, str]:
        is_listed = _sweep_of(started, page) is not None
        request.app[TYPED].get(started.key)  # takes the status of one that has ended
        return {"changed": f"{started.printed_bytes}-{started.is_running}-{is_listed}"}

    return await page.stream(request, versions)


def _started(request: web.Request) -> TypedCommand:
    """The command that an address names.

    Raises:
        HTTPNotFound: there is none.
    """
    if (found := request.app[TYPED].get(request.match_info["start"])) is None:
        raise web.HTTPNotFound(text="The page knows no such start.")
    return found


def _sweep_of(started: TypedCommand, page: PageContext) -> ListedSweep | None:
    """The sweep that a command has begun, or goes on with, as soon as it is there; another folder of the page
    may have one of its name."""
    folder = _folder_of(started)
    return next((each for each in page.sweeps.sweeps.values() if each.folder == folder), None)


def _page_elsewhere(started: TypedCommand, page: PageContext) -> str:
    """The command of a page that shows this sweep, once it is there, where this one shows none of its place:
    another project has typed it, or another --results-dir was given; else ""."""
    folder = _folder_of(started)
    if folder is None or {folder, folder.parent} & {*page.sweeps.folders}:
        return ""
    try:
        is_there = sweeps_in(folder) == [folder]
    except OSError:  # of a share that does not answer, or a name that is too long: the command says so
        return ""
    return command("dashboard", shown_path(folder)) if is_there else ""


def _folder_of(started: TypedCommand) -> Path | None:
    """Of the sweep that a command begins or goes on with; None of a --results-dir that can't be."""
    typed = dict(itertools.pairwise(started.words))
    try:
        results = started.folder / Path(typed.get("--results-dir", RESULTS)).expanduser()
    except RuntimeError:  # ~NAME of a user who is not there: the command says so
        return None
    return Path(typed.get("--resume", results.resolve() / started.name))


async def _typed(request: web.Request, form: Mapping[str, str]) -> Typed:
    """The command of a form.

    Raises:
        UserError: it can't be typed.
    """
    texts, kept, folder = settings_form.posted_texts(form), dict[str, str](), project.folder()
    if again := form.get("again", ""):
        kept, folder = await _again(request, again)
    words = settings_form.words_of(texts, folder, kept)
    if not (name := texts.get("name", "")):  # of when the form was opened: what is checked is what starts
        opened = form.get("opened", "")
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
