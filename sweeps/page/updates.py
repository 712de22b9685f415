"""Tell open pages that something has changed: server-sent events, one for each change.

A page names what it shows in the address of its stream, with the version that it has, and is fetched again
at each event. A browser connects again by itself, say after a laptop has slept, and is told at once that it
missed something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

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
