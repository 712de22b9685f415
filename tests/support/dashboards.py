"""A small sweep with a trial of each end, and the page that shows it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yarl
from aiohttp import web
from optuna.distributions import FloatDistribution

from sweeps.page import server
from sweeps.page.page_context import PageContext
from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose

LR = {"lr": FloatDistribution(0.0, 1.0)}


def sweep(folder: Path) -> Record:
    """A trial of each end, and one that trains."""
    record = Record.create(folder, "s", "max", {"sweep": "s", "metric": "acc", "trainable": "t"})
    trials: list[tuple[Status, list[float], str]] = [
        ("finished", [0.1, 0.3, 0.2], ""),
        ("pruned", [0.1, 0.2], ""),
        ("failed", [0.5], "RuntimeError: the toy broke"),
        ("diverged", [0.4, float("nan")], "acc was nan in epoch 2"),
        ("unfinished", [0.6], ""),
    ]
    for number, (status, scores, reason) in enumerate(trials):
        propose(record, {"lr": number / 10}, LR)
        for epoch, score in enumerate(scores, start=1):
            record.report(number, epoch, score, {"acc": score}, 1.0)
        if status != "unfinished":
            record.end(number, status, reason)
    return record


@dataclass(frozen=True)
class Served:
    """A page that is served."""

    url: str
    token: str
    page: PageContext
    app: web.Application

    @property
    def entry(self) -> str:
        """The address with the token."""
        return f"{self.url}/?token={self.token}"

    def ask(
        self, path: str = "/", method: str = "GET", *, is_in: bool = True, data: Any = None, **headers: str
    ) -> Answer:
        """What the server answers, without following it elsewhere.

        Args:
            path: of the page.
            method: of HTTP.
            is_in: whether the browser has the cookie.
            data: of a form.
            headers: of HTTP, with _ for -; a POST names its origin, unless another one is given.
        """
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        if method == "POST":
            given = {"Origin": self.url} | given
        if is_in:
            given |= {"Cookie": cookie_of(self)}
        return asyncio.run(_ask(self.url + path, method, given, data))


@dataclass(frozen=True)
class Answer:
    """What a server has answered."""

    status: int
    headers: Mapping[str, str]
    text: str


async def _ask(url: str, method: str, headers: Mapping[str, str], data: Any) -> Answer:
    timeout = aiohttp.ClientTimeout(total=120)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(
            method, yarl.URL(url, encoded=True), headers=headers, data=data, allow_redirects=False
        ) as answer,
    ):
        return Answer(answer.status, answer.headers, await answer.text())


def cookie_of(served: Served) -> str:
    """What a browser sends that has given the token."""
    answer = asyncio.run(_ask(served.entry, "GET", {}, None))
    return answer.headers["Set-Cookie"].partition(";")[0]


@contextlib.contextmanager
def served(
    *folders: Path, is_read_only: bool = False, token: str = "token-of-a-test", port: int = 0
) -> Iterator[Served]:
    """The page of sweeps, by a server in a thread of this process."""
    with server.listening_socket("127.0.0.1", port) as listening:
        page = PageContext(folders, token, "127.0.0.1", is_read_only=is_read_only)
        app, loop = server.app_of(page), asyncio.new_event_loop()
        task = loop.create_task(server.serve(app, listening))
        thread = threading.Thread(target=_run, args=(loop, task))
        thread.start()
        try:
            yield Served(server.url_of(listening, "127.0.0.1"), token, page, app)
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join()


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.closing(loop), contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
