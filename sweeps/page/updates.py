"""Tell open pages that something has changed: server-sent events, one for each change.

A page names what it shows in the address of its stream, with the version that it has, and is fetched again
at each event. A browser connects again by itself, say after a laptop has slept, and is told at once that it
missed something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from aiohttp import web

LOOK_EVERY_S = 1.0
ALIVE_EVERY = 15
"""Looks without a change after which a comment is sent: a browser that has gone is noticed by it."""
EVENT = "changed"
Version = Callable[[], Awaitable[str]]
"""What a page shows, as of now; another one once it has changed."""


class Listeners:
    """The open pages."""

    def __init__(self) -> None:
        self._ends = asyncio.Event()
        self.number = 0
        """How many are open now."""

    def end(self) -> None:
        """Let all streams end, as the server does."""
        self._ends.set()

    async def stream(self, request: web.Request, version_of: Version) -> web.StreamResponse:
        """Send an event at each change, until the page is closed.

        Args:
            request: with the `version` that the page has.
            version_of: looks anew. It is called once a second as long as this page is open.
        """
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        version = request.headers.get("Last-Event-ID") or request.query.get("version", "")
        self.number += 1
        try:
            looks = 0
            while not self._ends.is_set():
                if (now := await version_of()) != version:
                    version = now
                    await response.write(f"event: {EVENT}\nid: {version}\ndata: {version}\n\n".encode())
                elif looks % ALIVE_EVERY == 0:
                    await response.write(b": alive\n\n")
                looks += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ends.wait(), LOOK_EVERY_S)
        except ConnectionError:  # the page was closed
            pass
        finally:
            self.number -= 1
        return response
