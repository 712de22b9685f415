"""The sweep or the trial that an address of the page names."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sweeps.common import project
from sweeps.page.page_context import WAITS_S, context_of
from sweeps.page.sweep_list import ListedSweep
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

ROOT = "/sweep/{key}"
SLOW_S = 10.0
"""After which figures and what is computed with them follow a sweep that runs, at least."""
EPOCHS_A_SECOND = 1000.0
"""Of reported epochs that this takes as long again for each second."""


@dataclass(frozen=True)
class ShownSweep:
    """A sweep that is shown."""

    listed: ListedSweep
    record: Record

    @property
    def path(self) -> str:
        """Of its page."""
        return self.listed.path

    @property
    def project(self) -> Path:
        """The folder of its project, as far as that is known; else of the page's."""
        found = project.of_results(self.listed.folder, self.record.info.trainables)
        return found if found is not None and os.access(found, os.X_OK) else project.folder()

    @property
    def versions(self) -> dict[str, str]:
        """Of what its pages show, by the names of events."""
        return versions_of(self.listed)

    def trial_path(self, number: int) -> str:
        """Of the page of a trial."""
        return f"{self.path}/trial/{number}"


class BeingRead(Exception):
    """The record of a sweep is being read."""

    def __init__(self, listed: ListedSweep) -> None:
        super().__init__(listed.key)
        self.listed = listed


def versions_of(listed: ListedSweep | None) -> dict[str, str]:
    """Of a sweep: `changed`, `status`, and `slow`, which follows at a pace that the size of the record
    allows."""
    if listed is None:
        return {"changed": "", "status": "", "slow": ""}
    slow = listed.version
    if listed.state.is_held:
        epochs = 0 if listed.summary is None else listed.summary.epochs
        slow = f"{int(time.time() / (SLOW_S + epochs / EPOCHS_A_SECOND)):x}"
    return {"changed": listed.version, "status": listed.status, "slow": slow}


async def shown_sweep(request: web.Request, key: str | None = None) -> ShownSweep:
    """The sweep of a key, or that an address names, with its record as of now.

    Raises:
        BeingRead: that takes longer than a browser is to wait for a page.
        HTTPNotFound: there is none, or its record can't be read.
    """
    page, key = context_of(request), request.match_info["key"] if key is None else key
    await page.look()
    listed = page.sweeps.sweeps.get(key)
    if listed is None:
        raise _not_there(key)
    waits_s = WAITS_S if _is_of_whole_page(request) and not page.sweeps.holds(key) else None
    reading = asyncio.create_task(page.in_thread(page.sweeps.record, key))
    if not (await asyncio.wait({reading}, timeout=waits_s))[0]:
        reading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody waits for it
        raise BeingRead(listed)
    try:
        return ShownSweep(listed, reading.result())
    except (FileNotFoundError, KeyError):  # it was removed meanwhile
        raise _not_there(key) from None
    except (OSError, RecordUnreadable) as error:
        raise web.HTTPNotFound(text=f"The sweep {key} can't be read: {error}") from None


def _not_there(key: str) -> web.HTTPNotFound:
    return web.HTTPNotFound(text=f"There is no sweep {key} in the folders of this page.")


def _is_of_whole_page(request: web.Request) -> bool:
    """Whether a browser asks for a page that it will show in place of another one."""
    is_page = request.headers.get("Accept", "").startswith("text/html") and request.method == "GET"
    return is_page and "HX-Request" not in request.headers


def trial_of(sweep: ShownSweep, number: str) -> TrialRow:
    """A trial by its number.

    Raises:
        HTTPNotFound: there is none.
    """
    trials = sweep.record.trials
    if not (number.isascii() and number.isdecimal() and len(number) < 10 and int(number) < len(trials)):
        raise web.HTTPNotFound(text=f"The sweep {sweep.listed.key} has no trial {number}.")
    return trials[int(number)]


async def events(request: web.Request) -> web.StreamResponse:
    """Tell a page of the sweep that something has changed."""
    page, key = context_of(request), request.match_info["key"]
    return await page.stream(request, lambda: versions_of(page.sweeps.sweeps.get(key)))
