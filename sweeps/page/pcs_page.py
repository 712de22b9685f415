"""The page *PCs*: each PC, its GPUs, who is on them, and which trials train there; drain and back.

The PCs are asked by a process, `pc_reporter`, as long as somebody looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sweeps.common.formatting import size
from sweeps.common.imports import module_command
from sweeps.page.page_context import PageContext, context_of, posted
from sweeps.page.sweep import trial_log
from sweeps.page.sweep_list import ListedSweep
from sweeps.page.sweep_summary import TrainingTrial
from sweeps.page.typed_commands import TYPED, TypedCommand, TypedCommands

RETRIES_S = 5.0
"""After which a reporter that has ended is started again: its Ray has ended, or another one has begun."""
KEPT_S = 6.0
"""In which nobody looks before it is ended: a page that is loaded anew joins no Ray anew."""
LONGEST_REPORT_BYTES = 16 * 2**20
NO_REPORT: Mapping[str, Any] = {"pcs": [], "ray": None, "others": []}
MOST_COMMANDS = 5
MOST_BYTES = 2**12
"""Of what a command has printed that are shown."""


class PcWatch:
    """The reports of the PCs, as long as somebody looks, and the commands that were typed for them."""

    def __init__(self, typed: TypedCommands) -> None:
        self.latest: dict[str, Any] | None = None
        """The last report of `pc_reporter`; None before the first one."""
        self.fault = ""
        """Why there is none."""
        self._typed = typed
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._changes = 0

    @property
    def version(self) -> str:
        """Another one once something has changed."""
        printed = [f"{each.key}-{each.is_running}-{each.printed_bytes}" for each in self.commands]
        return "-".join([str(self._changes), *printed])

    @property
    def commands(self) -> list[TypedCommand]:
        """Those of this page, and those that still run; the newest first."""
        about_pcs = (each for each in self._typed.every() if not each.name)
        return [each for each in about_pcs if each.status is not None or each.is_running][:MOST_COMMANDS]

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Ask the PCs as long as a page is open."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._watchers -= 1
            asyncio.get_running_loop().call_later(KEPT_S, self.end_unwatched)

    def end_unwatched(self) -> None:
        """Ask the PCs no more, unless somebody looks."""
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self.latest = None  # of then, not of now

    async def _follow(self) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                *module_command("sweeps.page.pc_reporter"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST_REPORT_BYTES,
                start_new_session=True,  # Ctrl-C is for the page; this one ends with its standard input
            )
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            errors = asyncio.create_task(process.stderr.read())
            try:
                async for line in process.stdout:
                    with contextlib.suppress(ValueError):  # a line of Ray's
                        self.latest, self.fault = json.loads(line), ""
                        self._changes += 1
                await process.wait()
                last = (await errors).decode("utf-8", "replace").strip().splitlines()[-1:]
                if process.returncode and last:
                    self.latest, self.fault = None, last[0]
                    self._changes += 1
            finally:
                errors.cancel()
                process.stdin.close()
            await asyncio.sleep(RETRIES_S)


WATCH = web.AppKey("pcs", PcWatch)


@dataclass(frozen=True)
class PlacedTrial:
    """A trial that trains on a PC."""

    sweep: ListedSweep
    trial: TrainingTrial


async def show(request: web.Request) -> web.Response:
    """The page."""
    page, watch = context_of(request), request.app[WATCH]
    await page.look()
    return page.html(
        request,
        "pcs.html",
        watch=watch,
        version=_version(page, watch),
        **(watch.latest or NO_REPORT),
        trials_of=lambda pc: trials_on(pc, page.sweeps.sweeps.values()),
        who=who,
        printed=lambda typed: trial_log.end_of(typed.log, MOST_BYTES).text,
    )


async def events(request: web.Request) -> web.StreamResponse:
    """Tell it of each report of the PCs, and of each line of a command."""
    page, watch = context_of(request), request.app[WATCH]
    async with watch.watched():
        return await page.stream(request, lambda: {"changed": _version(page, watch)})


async def drain(request: web.Request) -> web.Response:
    """Take a PC out of the cluster, by `sweeps pcs drain`."""
    report = request.app[WATCH].latest or NO_REPORT
    address = (await posted(request)).get("pc", "")
    if not address or address not in [pc["address"] for pc in report["pcs"]]:
        raise web.HTTPConflict(text="No cluster has a PC of this address now. Load the page again.")
    request.app[TYPED].start(["pcs", "drain", address, "--address", str(report["ray"])])
    raise web.HTTPSeeOther("/pcs")


async def back(request: web.Request) -> web.Response:
    """Let this PC join its cluster again, by `sweeps pcs back`."""
    request.app[TYPED].start(["pcs", "back"])
    raise web.HTTPSeeOther("/pcs")


def trials_on(pc: Mapping[str, Any], sweeps: Iterable[ListedSweep]) -> list[PlacedTrial]:
    """The trials of these sweeps that train on a PC."""
    return [
        PlacedTrial(sweep, trial)
        for sweep in sweeps
        if sweep.summary is not None
        for trial in sweep.summary.training
        if trial.pc == pc["hostname"]
    ]


def who(process: Mapping[str, Any], trials: Sequence[PlacedTrial]) -> PlacedTrial | str:
    """Whose a process on a GPU is: the trial, or `anna (python, process 4711)`."""
    line = {process["pid"], *process["line"]}
    for placed in trials:
        if placed.trial.pid in line:
            return placed
    user = process["user"] or "unknown user"
    told = (process["program"], f"process {process['pid']}" if process["pid"] else "")
    held = "" if process["used_bytes"] is None else size(process["used_bytes"])
    return f"{user} ({', '.join(filter(None, (*told, held)))})"


def _version(page: PageContext, watch: PcWatch) -> str:
    return f"{page.sweeps.version}-{watch.version}"


ROUTES = [
    web.get("/pcs", show),
    web.get("/events/pcs", events),
    web.post("/pcs/drain", drain),
    web.post("/pcs/back", back),
]
