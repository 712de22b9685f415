"""The page that asks for the token."""

from __future__ import annotations

from aiohttp import web

from sweeps.page.page_context import context_of


async def ask(request: web.Request) -> web.Response:
    """Ask for it."""
    return context_of(request).html(request, "login.html", is_wrong="wrong" in request.query)


async def enter(request: web.Request) -> web.Response:
    """Let a browser in that has given it."""
    page = context_of(request)
    given = str((await request.post()).get("token", ""))
    # The whole address that the command prints may be pasted.
    if page.access.is_right(given.strip().rpartition("token=")[2]):
        return page.access.let_in(request, "/")
    return page.html(request, "login.html", status=403, is_wrong=True)


ROUTES = [web.get("/login", ask), web.post("/login", enter)]
