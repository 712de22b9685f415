"""What the parts of the page share: the sweeps, the access, the templates, and the streams of open pages.

A stream has server-sent events, one for each change. A page names what it shows in the address of its
stream, with the version that it has, and is fetched again at each event. A browser connects again by itself,
say after a laptop has slept, and is told at once that it missed something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import jinja2
from aiohttp import web

from sweeps.analysis.report import page as report
from sweeps.common.formatting import count, duration, encodable, rough, short, shown_path, size
from sweeps.kinds.registry import shown_name
from sweeps.page.access import Access
from sweeps.page.sweep_list import SweepList

T = TypeVar("T")
WAITS_S = 0.5
"""For what is read; a page is shown without it then, and says so."""
TEMPLATES = Path(__file__).with_name("templates")
NAVIGATION = {"/": "Sweeps", "/pcs": "PCs", "/start": "Start"}
"""Address and name of each part that every page links."""
CHANGING = "/start"
"""The one of them that a page which only shows does not have."""
LOOK_EVERY_S = 1.0
ALIVE_EVERY = 15
"""Looks without a change after which a comment is sent: a browser that has gone is noticed by it."""
MOST_KEPT = 4
"""Streams that stay open. A browser opens six connections to a host for all its windows: further pages that
are seen would not load. So their streams end after each look."""
AGAIN_S = 2.0
"""After which such a page looks again."""
Versions = Mapping[str, str]
"""Name of an event to the version of what it is about; another one once that has changed."""


class PageContext:
    """What the parts of the page share, which shows sweeps and folders of sweeps."""

    def __init__(self, folders: Iterable[Path], token: str, host: str, *, is_read_only: bool = False) -> None:
        self.sweeps = SweepList([*folders])
        self.access = Access(token, host, is_read_only=is_read_only)
        self.listeners = Listeners()
        self.is_read_only = is_read_only
        # One thread: records are read one after another, and answers that read none do not wait for them.
        self._reader = ThreadPoolExecutor(1, "records")
        self._look: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._templates = _environment()

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that may read records, while other requests are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, function, *arguments)

    async def look(self) -> None:
        """Look at all sweeps; at most once in half a second, whoever asks. A look that takes longer than a
        page may wait goes on behind it."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self.in_thread(self.sweeps.look))
        await asyncio.wait({self._look}, timeout=WAITS_S)
        if self._look.done():
            self._look.result()

    async def begin(self) -> None:
        """List the sweeps, and read the records whose rows are not known while the page is there already."""
        await self.in_thread(self.sweeps.read_on, 0.0)
        self._reading = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        with contextlib.suppress(OSError):  # which is told where somebody looks
            while await self.in_thread(self.sweeps.read_on):
                pass

    async def stream(self, request: web.Request, versions_of: Callable[[], Versions]) -> web.StreamResponse:
        """Tell an open page of each change of what it shows, by its versions after each look."""

        known = known_versions(request)

        async def events() -> list[Event]:
            await self.look()
            return changes(known, versions_of())

        return await self.listeners.push(request, events)

    def html(self, request: web.Request, template: str, *, status: int = 200, **content: Any) -> web.Response:
        """An answer, by a file of `templates/` and its variables, besides `page`, `request`, `navigation`."""
        links = {
            path: name for path, name in NAVIGATION.items() if not (self.is_read_only and path == CHANGING)
        }
        names = {"page": self, "request": request, "navigation": links}
        text = self._templates.get_template(template).render(names | content)
        # A record may hold text that is none, half of a pair of surrogates: that costs no page.
        body = text.encode(errors="backslashreplace")
        return web.Response(body=body, content_type="text/html", charset="utf-8", status=status)

    async def end(self) -> None:
        """Let all open pages go."""
        self.listeners.end()
        if self._reading is not None:
            self._reading.cancel()
        self._reader.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Event:
    """What an open page is told."""

    name: str
    data: str
    id: str
    """The versions that a page has then, as a query: what a browser names that connects again."""

    def encoded(self) -> bytes:
        """As it is sent."""
        data = "".join(f"data: {line}\n" for line in self.data.split("\n"))
        return f"event: {self.name}\nid: {self.id}\n{data}\n".encode(errors="backslashreplace")


def known_versions(request: web.Request) -> dict[str, str]:
    """The versions that a page has which asks for a stream."""
    last = request.headers.get("Last-Event-ID")
    return dict(request.query if last is None else parse_qsl(last))


def changes(known: dict[str, str], versions: Versions, text: str = "") -> list[Event]:
    """What a page is told that has other versions; they are taken for known then. The events bring a text."""
    events = []
    for name, version in versions.items():
        if known.get(name) != version:
            known[name] = version
            events.append(Event(name, text, urlencode(known, errors="backslashreplace")))
    return events


class Listeners:
    """The open pages."""

    def __init__(self) -> None:
        self._ends = asyncio.Event()
        self.number = 0
        """How many streams are open now."""

    def end(self) -> None:
        """Let all streams end, as the server does."""
        self._ends.set()

    async def push(
        self, request: web.Request, events_of: Callable[[], Awaitable[Sequence[Event]]]
    ) -> web.StreamResponse:
        """Send events, until the page is closed, or once where many pages are open. Once a second they are
        asked for that have come since."""
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        self.number += 1
        is_kept = self.number <= MOST_KEPT
        try:
            await response.prepare(request)
            looks = 0
            while not self._ends.is_set():
                events = await events_of()
                for event in events:
                    await response.write(event.encoded())
                if not is_kept:
                    await response.write(b"event: again\ndata: %g\n\n" % AGAIN_S)
                    break
                if not events and looks % ALIVE_EVERY == 0:
                    await response.write(b": alive\n\n")
                looks += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ends.wait(), LOOK_EVERY_S)
        except ConnectionError:  # the page was closed
            pass
        finally:
            self.number -= 1
        return response


CONTEXT = web.AppKey("page", PageContext)


def context_of(request: web.Request) -> PageContext:
    """That of the server that answers a request."""
    return request.app[CONTEXT]


async def posted(request: web.Request) -> dict[str, str]:
    """The texts of the form that was sent."""
    return {name: text for name, text in (await request.post()).items() if isinstance(text, str)}


def query_with(request: web.Request, **changed: str) -> str:
    """The address of the same page with other parameters; those that are empty are left out."""
    texts = {name: encodable(text) for name, text in changed.items()}
    parameters = {name: text for name, text in {**request.query, **texts}.items() if text}
    return str(request.rel_url.with_query(parameters))


def _environment() -> jinja2.Environment:
    environment = report.environment(TEMPLATES)
    filters: Sequence[Callable[..., str]] = (
        count, duration, rough, short, shown_path, size, shown_name,
    )  # fmt: skip
    environment.filters |= {each.__name__: each for each in filters}
    environment.globals |= {"query_with": query_with}
    return environment
