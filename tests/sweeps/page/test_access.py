"""Attacks on the page: a real server, and requests as a browser, another site or a program sends them."""

from __future__ import annotations

import socket
import stat
import time
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.page import access
from tests.support.dashboards import Served, cookie_of, served

PATHS = ["/", "/?text=s", "/events/sweeps", "/sweep/s", "/static2", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_nothing_is_shown_without_the_token(page: Served, path: str, method: str) -> None:
    answer = page.ask(path, method, is_in=False)
    assert answer.status == 401
    assert "unfinished" not in answer.text
    assert ">s<" not in answer.text


def test_a_browser_without_the_token_is_asked_for_it(page: Served) -> None:
    answer = page.ask(is_in=False, Accept="text/html,*/*")
    assert (answer.status, answer.headers["Location"]) == (303, "/login")
    login = page.ask("/login", is_in=False)
    assert (login.status, 'type="password"' in login.text) == (200, True)


@pytest.mark.parametrize("given", ["", "wrong", "token-of-a-tes", "token-of-a-test2", "ä", "9.9", "1e9.f"])
def test_a_wrong_token_lets_nobody_in(page: Served, given: str) -> None:
    by_address = page.ask(f"/?token={given}", is_in=False)
    assert "Set-Cookie" not in by_address.headers
    by_form = page.ask("/login", "POST", is_in=False, data={"token": given})
    assert (by_form.status, "Set-Cookie" in by_form.headers) == (403, False)


@pytest.mark.parametrize("cookie", ["", "token-of-a-test", "0" * 64])
def test_a_wrong_cookie_lets_nobody_in(page: Served, cookie: str) -> None:
    name = cookie_of(page).partition("=")[0]
    assert page.ask(is_in=False, Cookie=f"{name}={cookie}").status == 401


def test_the_token_is_not_left_in_the_address_nor_in_the_cookie(page: Served) -> None:
    answer = page.ask(f"/?token={page.token}&text=s", is_in=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/?text=s")
    cookie = answer.headers["Set-Cookie"]
    assert page.token not in cookie
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))


def test_the_form_takes_the_token_and_the_whole_address(page: Served) -> None:
    for given in (page.token, f" {page.entry}\n"):
        answer = page.ask("/login", "POST", is_in=False, data={"token": given})
        assert (answer.status, answer.headers["Location"]) == (303, "/")


def test_a_code_for_the_browser_is_good_once_and_not_for_long(
    page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = access.one_time_code(page.token)
    assert page.token not in code
    assert "Set-Cookie" in page.ask(f"/?token={code}", is_in=False).headers
    assert "Set-Cookie" not in page.ask(f"/?token={code}", is_in=False).headers
    late = access.one_time_code(page.token)
    now = time.time()
    monkeypatch.setattr(access.time, "time", lambda: now + access.ONE_TIME_CODE_S + 2)
    assert "Set-Cookie" not in page.ask(f"/?token={late}", is_in=False).headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "10.0.0.7", "["]
)
def test_a_name_that_was_given_this_address_reads_nothing(page: Served, host: str) -> None:
    for path in ("/", "/login", f"/?token={page.token}"):
        answer = page.ask(path, Host=host)
        assert answer.status in (400, 403)  # 400: aiohttp takes it for no name at all
        assert "Set-Cookie" not in answer.headers


def test_a_host_answers_to_its_name_in_small_letters_as_browsers_send_it() -> None:
    named = access.Access("token", "Anna-PC.lan", is_read_only=False)
    assert named._is_named("anna-pc.lan:8787")
    assert not named._is_named("bob-pc.lan:8787")


def test_a_page_for_all_networks_answers_to_the_name_of_its_pc_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gpu1.local` is how another PC of the same network finds it without a name server."""
    monkeypatch.setattr(socket, "gethostname", lambda: "GPU1")
    monkeypatch.setattr(socket, "getfqdn", lambda: "GPU1.lab.example")
    named = access.Access("token", "0.0.0.0", is_read_only=False)
    names = ("gpu1", "gpu1.local", "gpu1.lab.example", "10.0.0.7")
    assert all(named._is_named(f"{name}:8787") for name in names)
    assert not named._is_named("gpu1.evil.example:8787")


def test_a_tunnel_from_another_port_is_let_through(page: Served) -> None:
    assert page.ask("/login", is_in=False, Host="localhost:9999").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},  # another program of this PC
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_page_of_another_site_presses_no_button(page: Served, headers: dict[str, str]) -> None:
    answer = page.ask("/login", "POST", data={"token": page.token}, **headers)
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(page: Served, method: str) -> None:
    assert page.ask("/", method).status in (403, 405)


def test_a_page_that_only_shows_refuses_each_post(results: Path) -> None:
    with served(results, is_read_only=True) as page:
        assert page.ask("/").status == 200
        assert "read-only" in page.ask("/").text
        for path in ("/", "/sweep/s", "/anything"):
            answer = page.ask(path, "POST")
            assert (answer.status, answer.text) == (403, "This page is read-only (--read-only).")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../access.py",
        "/static/%2e%2e/access.py",
        "/static/..%2faccess.py",
        "/static/%2e%2e%2f%2e%2e%2fdashboard.py",
        "/static//etc/passwd",
        "/sweep/..%2f..%2fetc",
        "/sweep/%2fetc%2fpasswd",
        "/sweep/s%00",
    ],
)
def test_no_path_outside_is_served(page: Served, path: str) -> None:
    answer = page.ask(path)
    assert answer.status in (400, 403, 404)
    assert "def " not in answer.text
    assert "root:" not in answer.text


def test_each_answer_forbids_frames_and_scripts_of_others(page: Served) -> None:
    for path in ("/", "/login", "/static/page.css", "/nothing"):
        policy = page.ask(path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert page.ask(path).headers["Referrer-Policy"] == "same-origin"
    assert page.ask("/").headers["Cache-Control"] == "no-store"


def test_the_token_is_that_of_the_user_alone_and_stays(tmp_path: Path) -> None:
    token = access.token_of_user(is_read_only=False)
    file = tmp_path / "state" / "sweeps" / access.TOKEN_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (access.token_of_user(is_read_only=False), len(token)) == (token, 43)
    file.chmod(0o644)
    with pytest.raises(UserError, match=r"others can read this token. Remove the file"):
        access.token_of_user(is_read_only=False)
    file.chmod(0o600)
    file.write_text("")
    with pytest.raises(UserError, match="not a token of this program"):
        access.token_of_user(is_read_only=False)


def test_what_opens_a_page_that_only_shows_opens_no_other(results: Path) -> None:
    whole, shows = (access.token_of_user(is_read_only=only) for only in (False, True))
    assert shows not in (whole, "")
    with served(results, token=whole) as page, served(results, token=whole, is_read_only=True) as shown:
        assert "Set-Cookie" not in page.ask(f"/?token={shows}", is_in=False).headers
        # Of one token even: neither the mode nor the port can be changed in a cookie.
        name = cookie_of(page).partition("=")[0]
        stolen = cookie_of(shown).partition("=")[2]
        assert page.ask(is_in=False, Cookie=f"{name}={stolen}").status == 401
    with served(results, token=whole) as other:
        cookie = cookie_of(other)
    with served(results, token=whole) as page:
        name = cookie_of(page).partition("=")[0]
        assert page.ask(is_in=False, Cookie=f"{name}={cookie.partition('=')[2]}").status == 401


def raw(page: Served, lines: bytes) -> bytes:
    """The first line of what the server answers to bytes that no browser sends."""
    host, _, port = page.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(lines.replace(b"PORT", port.encode()))
        return connection.makefile("rb").readline()


def test_bytes_that_are_no_text_are_refused(page: Served) -> None:
    asked = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nCookie: sweeps-PORT=\xff\r\n\r\n"
    assert b" 401 " in raw(page, asked)
    form = b"Content-Type: application/x-www-form-urlencoded"
    for kind in (form, form + b"; charset=none-such"):
        head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\n"
        assert b" 400 " in raw(page, head + kind + b"\r\nContent-Length: 7\r\n\r\ntoken=\xff")
