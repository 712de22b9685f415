"""A real browser without a window: Chromium, spoken to through a pipe by its DevTools protocol.

    with browser.chromium() as chromium:
        page = chromium.open("http://127.0.0.1:8080")
        page.wait_for("document.body.innerText.includes('Running')")
        page.screenshot(path)

https://chromedevtools.github.io/devtools-protocol/: a message is JSON and a NUL. Not by Playwright or
Selenium: these keep each page visible, and what a page does while it is hidden is tested, too.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60.0
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads from descriptor 3 and writes to 4; a shell knows no numbers above 9."""


@contextlib.contextmanager
def chromium(width: int = 1400, height: int = 2400) -> Iterator[Chromium]:
    """A browser of its own, its profile too; the test is skipped where none is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed (apt-get install chromium)")
    flags = [
        *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"),
        *("--no-sandbox", "--disable-dev-shm-usage", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"),
        f"--window-size={width},{height}",
    ]
    hears, tells = os.pipe()
    listens, says = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCH, str(hears), str(says)),
                *(program, *flags, f"--user-data-dir={profile}", "about:blank"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[hears, says],
        )
        os.close(hears)
        os.close(says)
        try:
            yield Chromium(tells, listens)
        finally:
            os.close(tells)  # it ends when nobody speaks to it any more
            os.close(listens)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Chromium:
    """A running browser."""

    def __init__(self, tells: int, listens: int) -> None:
        self._tells, self._listens = tells, listens
        self._next, self._read = 0, b""
        self._ready = selectors.DefaultSelector()
        self._ready.register(listens, selectors.EVENT_READ)
        self.said: list[dict[str, Any]] = []
        """Events: what pages wrote to their console, and the exceptions that they did not catch."""

    def open(self, url: str) -> Page:
        """A new page, as soon as it begins to load."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for part in ("Page", "Runtime", "Log"):
            self.call(f"{part}.enable", session)
        page.go(url)
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command.

        Raises:
            RuntimeError: it answers with an error.
            TimeoutError: it does not answer.
        """
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._tells, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._receive(until)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.said.append(answer)

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._read:
            if not self._ready.select(max(0.0, until - time.monotonic())):
                raise TimeoutError(f"Chromium does not answer within {TIMEOUT_S:g} s")
            if not (read := os.read(self._listens, 2**20)):
                raise RuntimeError("Chromium has ended")
            self._read += read
        message, _, self._read = self._read.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received


class Page:
    """A page of a browser."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser, self._session = browser, session

    def go(self, url: str) -> None:
        """Load another page in its place."""
        failed = self._browser.call("Page.navigate", self._session, url=url).get("errorText")
        assert not failed, f"{url}: {failed}"

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command of this page."""
        return self._browser.call(method, self._session, **parameters)

    def value(self, script: str) -> Any:
        """What a JavaScript expression gives, a promise of it too."""
        answer = self._browser.call(
            "Runtime.evaluate", self._session, expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    @property
    def text(self) -> str:
        """What can be read on it now."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def wait_for(self, script: str, timeout_s: float = TIMEOUT_S) -> Any:
        """The value of an expression, once it is true.

        While a page gives way to another, and before its scripts are there, an expression may have no value.
        """
        until = time.monotonic() + timeout_s
        while True:
            try:
                if value := self.value(script):
                    return value
            except (AssertionError, RuntimeError):
                if time.monotonic() > until:
                    raise
            assert time.monotonic() < until, f"never {script}\non the page:\n{self.text}"
            time.sleep(0.2)

    def wait_for_text(self, text: str, timeout_s: float = TIMEOUT_S) -> None:
        """Go on once a text can be read."""
        self.wait_for(f"document.body && document.body.innerText.includes({json.dumps(text)})", timeout_s)

    def click(self, text: str) -> None:
        """Click the innermost element that reads so."""
        found = f"""[...document.querySelectorAll('*')].filter(
            e => e.innerText && e.innerText.trim() === {json.dumps(text)}).pop()"""
        self.wait_for(f"!!({found})")
        self.value(f"({found}).click()")

    def screenshot(self, path: Path, size: tuple[float, float] | None = None) -> None:
        """What it shows now, as PNG; with a size only so much of it, from its left upper corner."""
        part = (
            {}
            if size is None
            else {"clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}}
        )
        picture = self._browser.call("Page.captureScreenshot", self._session, format="png", **part)["data"]
        path.write_bytes(base64.b64decode(picture))
