"""The server of the page: its addresses, its start and its end, and which pages are open on this PC.

A part of the page (`sweeps_page.py`) has ROUTES, handlers by their addresses. A handler takes what it shows
from the context, reads records in the thread for it, and answers with a template:

    async def show(request: web.Request) -> web.Response:
        page = context_of(request)
        record = await page.in_thread(page.sweeps.record, request.match_info["key"])
        return page.html(request, "sweep.html", record=record)

A template extends `layout.html`. What is live on it is in a `live` block of `live.html`: it is fetched again,
and morphed in place, at each event of the page's stream (`PageContext.stream`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import plotly.offline
from aiohttp import log as web_log
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sweeps.analysis.report import page as report
from sweeps.common import local_dirs
from sweeps.common.errors import UserError
from sweeps.page import access, pcs_page, start_page, sweeps_page
from sweeps.page.page_context import CONTEXT, PageContext, context_of, posted
from sweeps.page.sweep import compare_page, control_page, sweep_page, trial_page
from sweeps.page.sweep.shown_sweep import BeingRead
from sweeps.page.typed_commands import TYPED, TypedCommands
from sweeps.ray_start.ray_folder import ray_folders

PORTS_TRIED = 50
"""From the one that was asked for on."""
STATIC = Path(__file__).with_name("static")
OF_REPORT = ("style.css", "figures.js", "tables.js")
ENDS_S = 2.0
"""In which open requests end with the server."""
ASKS_EVERY_S = 5.0
"""Whether it is still used."""
UNUSED_S = 30.0
"""After the last use it ends: a page that is loaded anew, or a sweep that follows another one, is a use."""
PARTS = (sweeps_page, pcs_page, sweep_page, trial_page, control_page, compare_page, start_page)


def app_of(page: PageContext) -> web.Application:
    """All addresses of the page."""
    app = web.Application(middlewares=[page.access.check, _tell_fault], client_max_size=2**20)
    app[CONTEXT] = page
    app[TYPED] = TypedCommands()
    app[pcs_page.WATCH] = pcs_page.PcWatch(app[TYPED])
    for part in PARTS:
        app.add_routes(part.ROUTES)
    app.add_routes([web.get("/login", _ask_for_token), web.post("/login", _enter)])
    app.add_routes([web.get("/static/plotly.min.js", _plotly), web.static("/static", STATIC)])
    app.add_routes(web.get(f"/static/report/{name}", _of_report) for name in OF_REPORT)

    async def begin(_: web.Application) -> None:
        await page.begin()

    async def end(_: web.Application) -> None:
        await page.end()
        app[pcs_page.WATCH].end_unwatched()

    app.on_startup.append(begin)
    app.on_shutdown.append(end)
    return app


async def serve(
    app: web.Application, listening: socket.socket, is_unused: Callable[[], bool] | None = None
) -> None:
    """Answer until the task is cancelled, or the page is unused, which is asked now and then."""
    # Without a log of requests, whose first one holds the token; nor of those that are none.
    web_log.server_logger.addFilter(_is_of_server)
    # What nobody waits for any more ends, such as the check of a form that was changed meanwhile.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=ENDS_S, handler_cancellation=True)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        while is_unused is None or not await asyncio.to_thread(is_unused):
            await asyncio.sleep(3600 if is_unused is None else ASKS_EVERY_S)
    finally:
        await runner.cleanup()


def _is_of_server(logged: logging.LogRecord) -> bool:
    """Whether a line of the log is about a fault of the server."""
    return not (logged.exc_info and isinstance(logged.exc_info[1], HttpProcessingError))


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket at the port that was asked for, or at the next one that is free.

    Raises:
        UserError: there is no such host, or no port is free.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise UserError(f"--host {host}: {error.strerror}") from None
    except UnicodeError as error:  # of a name with two dots in a row, say
        raise UserError(f"--host {host}: {error}") from None
    fault = ""
    for number in range(port, min(port + PORTS_TRIED, 65536)) if port else (0,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address[0], number, *address[2:]))
            listening.listen(128)
        except OSError as error:
            listening.close()
            fault = error.strerror or str(error)
        else:
            return listening
    raise UserError(f"--port {port}: can't listen on {host}: {fault}")


def url_of(listening: socket.socket, host: str) -> str:
    """The address of the page, without its token."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


@web.middleware
async def _tell_fault(request: web.Request, handler: access.Handler) -> web.StreamResponse:
    """A page that says what is not there, or not there yet."""
    try:
        return await handler(request)
    except BeingRead as sweep:
        return context_of(request).html(request, "being_read.html", sweep=sweep.listed)
    except web.HTTPNotFound as error:
        words = error.text if error.text and not error.text.startswith("404") else "There is no such page."
        return context_of(request).html(request, "fault.html", status=404, fault=words)


async def _ask_for_token(request: web.Request) -> web.Response:
    return context_of(request).html(request, "login.html", is_wrong="wrong" in request.query)


async def _enter(request: web.Request) -> web.Response:
    """Let a browser in that has given the token."""
    page = context_of(request)
    given = (await posted(request)).get("token", "")
    # The whole address that the command prints may be pasted.
    if page.access.is_right(given.strip().rpartition("token=")[2]):
        return page.access.let_in(request, "/")
    return page.html(request, "login.html", status=403, is_wrong=True)


async def _of_report(request: web.Request) -> web.FileResponse:
    """A file of the report, which has the same look."""
    return web.FileResponse(report.FOLDER / request.path.rpartition("/")[2])


async def _plotly(_: web.Request) -> web.Response:
    """Plotly's script, of the package that is installed."""
    headers = {"Cache-Control": "private, max-age=86400"}
    return web.Response(text=plotly.offline.get_plotlyjs(), content_type="text/javascript", headers=headers)


@dataclass(frozen=True, kw_only=True)
class OpenPage:
    """A page that is open on this PC: a file that its process has claimed, so that one that nobody has
    claimed is of the past."""

    url: str
    """Without its token."""
    pid: int
    folders: Sequence[str]
    host: str
    is_read_only: bool
    ray: str = ""
    """Address of the Ray whose PCs it was told to show; "" where it chooses one."""

    def shows(self, folders: Sequence[Path], host: str, *, is_read_only: bool, ray: str = "") -> bool:
        """Whether another one would be the same, or does as well: one that is told no Ray."""
        is_alike = (self.host, self.is_read_only) == (host, is_read_only) and ray in ("", self.ray)
        return is_alike and set(map(str, folders)) <= set(self.folders)


@contextlib.contextmanager
def noted(page: OpenPage) -> Iterator[None]:
    """Note the page of this process for a block."""
    path = _folder() / f"{page.pid}.json"
    number = local_dirs.write_claimed(path, json.dumps(asdict(page)), path.with_suffix(".part"))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(number)


def open_pages() -> list[OpenPage]:
    """All that are open; files of those that have ended are removed."""
    found = []
    for path in _folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError), path.open() as file:
            if local_dirs.is_claimed(file):
                found.append(OpenPage(**json.load(file)))
            else:
                path.unlink()
    return found


class Usage:
    """Of a page: somebody looks at it, one of its sweeps runs, or `sweeps up` keeps this PC ready."""

    def __init__(self, page: PageContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._page, self._clock = page, clock
        self._used = clock()

    def has_ended(self) -> bool:
        """Whether nobody has used it for some time."""
        if self._page.listeners.number or self._may_run() or _ray_stays():
            self._used = self._clock()
        return self._clock() > self._used + UNUSED_S

    def _may_run(self) -> bool:
        """Whether one of its sweeps runs, as far as is known."""
        try:
            return self._page.sweeps.is_any_running()
        except OSError:  # a share that does not answer
            return True


def _ray_stays() -> bool:
    """Whether `sweeps up` keeps this PC ready."""
    try:
        return any(each.stays and each.state() is not None for each in ray_folders())
    except UserError:  # no folder is of use for a Ray, as where the disk is full
        return False


def _folder() -> Path:
    folder = local_dirs.folder_of_user() / "pages"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
