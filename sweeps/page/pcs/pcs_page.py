"""The page *PCs*: each PC, its GPUs, who is on them, and which trials train there; drain and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiohttp import web

from sweeps.common.formatting import size
from sweeps.page.page_context import PageContext, context_of
from sweeps.page.pcs.pc_watch import PcWatch
from sweeps.page.sweep import trial_log
from sweeps.page.sweep_list import ListedSweep
from sweeps.page.sweep_summary import TrainingTrial

WATCH = web.AppKey("pcs", PcWatch)
MOST_BYTES = 2**12
"""Of what a command has printed that are shown."""


@dataclass(frozen=True)
class PlacedTrial:
    """A trial that trains on a PC."""

    sweep: ListedSweep
    trial: TrainingTrial

    @property
    def path(self) -> str:
        """Of its page."""
        return f"/sweep/{quote(self.sweep.key, safe='')}/trial/{self.trial.number}"


async def show(request: web.Request) -> web.Response:
    """The page."""
    page, watch = context_of(request), request.app[WATCH]
    await page.look()
    return page.html(
        request,
        "pcs.html",
        watch=watch,
        version=_version(page, watch),
        pcs=[] if watch.latest is None else watch.latest["pcs"],
        ray=None if watch.latest is None else watch.latest["ray"],
        others=[] if watch.latest is None else watch.latest["others"],
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
    watch = request.app[WATCH]
    address = str((await request.post()).get("pc", ""))
    known = {pc["address"] for pc in (watch.latest or {"pcs": []})["pcs"] if pc["address"]}
    if watch.latest is None or address not in known:
        raise web.HTTPConflict(text="No cluster has a PC of this address now. Load the page again.")
    watch.typed.start(["pcs", "drain", address, "--address", str(watch.latest["ray"])])
    raise web.HTTPSeeOther("/pcs")


async def back(request: web.Request) -> web.Response:
    """Let this PC join its cluster again, by `sweeps pcs back`."""
    request.app[WATCH].typed.start(["pcs", "back"])
    raise web.HTTPSeeOther("/pcs")


def trials_on(pc: Mapping[str, Any], sweeps: Sequence[ListedSweep] | Any) -> list[PlacedTrial]:
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
