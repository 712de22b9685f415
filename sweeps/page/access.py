"""Who may see the page: the token and its cookie, the names that the page answers to, and the headers.

Each request but that for the login and its style sheet needs the token. A page of another site can't read
this one (its cookie is SameSite=Strict, and its name is checked against DNS rebinding), frame it, or press
one of its buttons (the Origin of each POST is checked).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from sweeps.common import atomic_io, local_dirs
from sweeps.common.errors import UserError

TOKEN_PARAMETER = "token"
TOKEN_FILE = "dashboard_token"
"""In the state folder of the user."""
COOKIE_DAYS = 90
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
ONE_TIME_CODE_S = 120.0
"""In which the browser must have opened the page."""
HEADERS = {
    # Plotly styles its figures by attributes; no style can send anything away, as nothing may be loaded.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer" a browser names no origin of a form either, and each would be refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access:
    """The check of each request to a server that listens at a host. Where it is read-only, each request to
    change something is refused."""

    def __init__(self, token: str, host: str, *, is_read_only: bool) -> None:
        self.is_read_only = is_read_only
        self.token = token
        self._hosts, self._answers_any_address = {*LOCAL_HOSTS, host.lower()}, host not in LOCAL_HOSTS
        if self._answers_any_address:
            name = socket.gethostname().lower()
            self._hosts |= {name, f"{name.partition('.')[0]}.local", socket.getfqdn().lower()}
        self._used_codes: set[str] = set()

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request that must not be answered; give each answer the headers."""
        try:
            response = await self._checked(request, handler)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._is_named(request.host):
            how = "Open it by the address of its PC, or start it with this name as --host."
            raise web.HTTPForbidden(text=f"This page does not answer to the name {request.host!r}. {how}")
        if request.method not in ("GET", "HEAD", "POST"):
            raise web.HTTPMethodNotAllowed(request.method, ["GET", "HEAD", "POST"])
        if request.method == "POST":
            if not _is_of_same_origin(request):
                raise web.HTTPForbidden(text="This request does not come from this page.")
            try:
                await request.post()  # handlers find it read
            except (ValueError, LookupError):  # bytes that are no text, or a coding that does not exist
                raise web.HTTPBadRequest(text="This form can't be read.") from None
        if given := request.query.get(TOKEN_PARAMETER):
            if not self.is_right(given):
                raise web.HTTPSeeOther("/login?wrong=1")
            # Without the token in the address, which stays in the history and on the screen.
            return self.let_in(request, str(request.rel_url.without_query_params(TOKEN_PARAMETER)))
        if request.path == "/login" or request.path.startswith("/static/"):  # they show nothing of a sweep
            return await handler(request)
        if not _are_equal(request.cookies.get(_cookie_name(request), ""), self._cookie(request)):
            if request.method == "GET" and request.headers.get("Accept", "").startswith("text/html"):
                raise web.HTTPSeeOther("/login")
            raise web.HTTPUnauthorized(text="This page needs the token that `sweeps dashboard` prints.")
        if request.method == "POST" and self.is_read_only:
            raise web.HTTPForbidden(text="This page is read-only (--read-only).")
        return await handler(request)

    def is_right(self, given: str) -> bool:
        """Whether a text is the token, or a code that was not used yet. The time that it takes says nothing
        about the token."""
        if _are_equal(given, self.token):
            return True
        until, _, _ = given.partition(".")
        if (
            not _are_equal(given, _code(self.token, until))
            or given in self._used_codes
            or time.time() > int(until)
        ):
            return False
        self._used_codes.add(given)
        return True

    def let_in(self, request: web.Request, path: str) -> web.Response:
        """Send a browser that has given the token to a page, with the cookie."""
        response = web.Response(status=303, headers={"Location": path})
        response.set_cookie(
            _cookie_name(request),
            self._cookie(request),
            max_age=COOKIE_DAYS * 86400,
            httponly=True,
            samesite="Strict",
            path="/",
        )
        return response

    def _cookie(self, request: web.Request) -> str:
        """Not the token itself, which can't be told from this. It is good for the page at this port alone,
        and not for one that may do more: the browser sends it to every program of this PC that it opens."""
        port = request.get_extra_info("sockname")[1]
        return _derived(self.token, f"cookie {'read-only' if self.is_read_only else 'all'} {port}")

    def _is_named(self, host: str) -> bool:
        """Whether the page answers to a name. A page of the web can give its own name the address of this PC,
        and would read this one through the browser (DNS rebinding)."""
        name, _ = _name_and_port(f"//{host}")
        return name in self._hosts or (self._answers_any_address and _is_address(name))


def one_time_code(token: str) -> str:
    """What lets a browser in once. The words of its command, which other users of the PC can list, hold this
    one and not the token."""
    return _code(token, f"{time.time() + ONE_TIME_CODE_S:.0f}")


def _code(token: str, until: str) -> str:
    return f"{until}.{_derived(token, f'code {until}')}"


def _derived(token: str, purpose: str) -> str:
    """What only who has the token can make, and from which the token can't be told."""
    return hmac.new(token.encode(), purpose.encode(errors="replace"), hashlib.sha256).hexdigest()


def _are_equal(given: str, right: str) -> bool:
    """The time that it takes says nothing about what is right; any bytes may be given."""
    return hmac.compare_digest(given.encode(errors="replace"), right.encode())


def token_of_user(*, is_read_only: bool) -> str:
    """The token, which is made at the first start, so that a bookmark of the page stays good. That of a page
    which only shows opens no other page.

    Raises:
        UserError: its file can't be read or written, or others can read it.
    """
    path = local_dirs.state_dir() / TOKEN_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            atomic_io.write(path, secrets.token_urlsafe(32), 0o600)
        if path.stat().st_mode & 0o077 or path.stat().st_uid != os.getuid():
            raise UserError(f"{path}: others can read this token. Remove the file: a new one is made then")
        token = path.read_text().strip()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if len(token) < 16:
        raise UserError(f"{path}: not a token of this program. Remove the file: a new one is made then")
    return _derived(token, "read-only") if is_read_only else token


def _is_of_same_origin(request: web.Request) -> bool:
    """Whether this very page sends a request. Browsers name the origin of each POST."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return False
    origin = _name_and_port(request.headers.get("Origin", ""))
    return bool(origin[0]) and origin == _name_and_port(f"//{request.host}")


def _cookie_name(request: web.Request) -> str:
    """With the port: cookies of one host are shared by all its ports."""
    return f"sweeps-{_name_and_port(f'//{request.host}')[1]}"


def _name_and_port(url: str) -> tuple[str, int]:
    """Those of an address; "" where it has none that can be understood."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or 80
    except ValueError:
        return "", 0


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
