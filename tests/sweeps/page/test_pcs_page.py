"""The page of the PCs: their reports, who is on their GPUs, and the commands that its buttons type."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import ray

from sweeps.page.pcs_page import WATCH
from sweeps.page.typed_commands import TYPED
from sweeps.ray_cluster import nodes
from tests.conftest import ROOT
from tests.support import heads
from tests.support.dashboards import Served, cookie_of, served

NVML = ROOT / "tests" / "faulty" / "nvml"
NOBODY = "127.0.0.1:1"
"""Where no Ray answers."""
ANOTHER = "10.0.0.7:6379"


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, with this process on it, and a driver for it in processes of the test."""
    (tmp_path / "gpus").write_text("RTX <b>3090, 570.86, 24576, 0, 10496, GPU-a\n")
    (tmp_path / "on-it").write_text(f"0, C, {os.getpid()}, 8000\n")
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("GPU_PROCESSES", str(tmp_path / "on-it"))
    monkeypatch.setenv("PYTHONPATH", f"{NVML}{os.pathsep}{ROOT}")
    monkeypatch.setenv("RAY_ADDRESS", NOBODY)


def cluster(**process: Any) -> dict[str, Any]:
    """A report of two PCs."""
    on_it = {"pid": 7, "user": "ann", "program": "python", "used_bytes": 8 * 10**9, "line": [7], **process}
    gpu = {"index": 0, "name": "RTX 3090", "memory_bytes": 25 * 10**9, "used_bytes": 9 * 10**9}
    report = {
        "cpus": 8,
        "cpu_percent": 12.5,
        "memory_bytes": 32 * 10**9,
        "used_bytes": 8 * 10**9,
        "gpus": [{**gpu, "load_percent": 87, "shows_processes": True, "processes": [on_it]}],
    }
    head = {"hostname": "pc1", "address": "10.0.0.1", "is_head": True, "report": report, "fault": ""}
    late = {"hostname": "pc2", "address": "10.0.0.2", "is_head": False, "report": None, "fault": "it is late"}
    return {"ray": NOBODY, "others": [ANOTHER], "pcs": [head, late]}


def show(page: Served, **process: Any) -> str:
    """The page after this report, in words."""
    page.app[WATCH].latest = cluster(**process)
    return words(page.ask("/pcs").text)


def words(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", text))


def test_each_pc_says_how_loaded_it_is_and_who_is_on_its_gpus(page: Served) -> None:
    text = show(page)
    assert f"2 PCs of the Ray at {NOBODY}" in text
    assert f"1 other Ray here: {ANOTHER}" in text
    assert f"sweeps pcs status --address {ANOTHER}" in text
    assert "pc1 10.0.0.1 head" in text
    assert "12 % of 8 cores" in text
    assert "0 RTX 3090 87 % 9 GB of 25 GB ann (python, process 7, 8 GB)" in text
    assert "pc2 10.0.0.2 No report: it is late" in text


def test_names_of_users_and_programs_are_no_markup(page: Served) -> None:
    page.app[WATCH].latest = cluster(user="<script>alert(1)</script>", program="<b>")
    text = page.ask("/pcs").text
    assert "<script>alert" not in text
    assert "<b>" not in text


def test_only_a_pc_that_is_there_and_no_head_can_be_drained(page: Served) -> None:
    show(page)
    text = page.ask("/pcs").text
    assert [*re.findall(r'name="pc" value="([^"]*)"', text)] == ["10.0.0.2"]
    for given in ("", "10.0.0.9", "--address", "pc2"):
        assert page.ask("/pcs/drain", "POST", data={"pc": given}).status == 409
    assert page.app[WATCH].commands == []


def test_a_page_that_only_shows_has_no_buttons(results: Path) -> None:
    with served(results, is_read_only=True) as page:
        show(page)
        assert "<button" not in page.ask("/pcs").text
        assert page.ask("/pcs/drain", "POST", data={"pc": "10.0.0.2"}).status == 403
        assert page.ask("/pcs/back", "POST").status == 403
        assert page.app[WATCH].commands == []


@pytest.mark.slow
def test_drain_types_the_command_and_shows_what_it_says(page: Served) -> None:
    show(page)
    assert page.ask("/pcs/drain", "POST", data={"pc": "10.0.0.2"}).status == 303
    (typed,) = page.app[WATCH].commands
    assert typed.words == ("pcs", "drain", "10.0.0.2", "--address", NOBODY)
    while (ended := page.app[TYPED].get(typed.key)) is None or ended.status is None:
        time.sleep(0.1)
    text = words(page.ask("/pcs").text)
    assert f"pcs drain 10.0.0.2 --address {NOBODY} exit status 2" in text
    assert f"error: --address {NOBODY}: no Ray cluster answers there" in text


def looked_at(page: Served) -> str:
    """The page of somebody who looks until there is a report of each PC: one that is late comes later."""
    cookie = {"Cookie": cookie_of(page)}

    async def look() -> str:
        async with (
            aiohttp.ClientSession(headers=cookie) as session,
            session.get(f"{page.url}/events/pcs?changed=") as stream,
        ):
            async for _ in stream.content:
                report = page.app[WATCH].latest
                if report is not None and all(pc["report"] is not None for pc in report["pcs"]):
                    break
            async with session.get(f"{page.url}/pcs") as answer:
                return await answer.text()

    return asyncio.run(asyncio.wait_for(look(), 120))


@pytest.mark.slow
@pytest.mark.usefixtures("card")
def test_without_ray_it_shows_this_pc_and_asks_only_while_somebody_looks(page: Served) -> None:
    assert "The PCs are asked" in page.ask("/pcs").text
    text = looked_at(page)
    assert "No Ray runs on this PC now" in text
    assert "RTX &lt;b&gt;3090" in text
    assert f"process {os.getpid()}, 8.39 GB" in text
    with contextlib.suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(_forgotten(page), 30))
    assert page.app[WATCH].latest is None


async def _forgotten(page: Served) -> None:
    while page.app[WATCH].latest is not None:
        await asyncio.sleep(0.1)


@pytest.mark.slow
def test_a_ray_without_a_token_is_looked_at_by_a_user_who_has_one(
    page: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads.write_token(tmp_path / ".ray" / "auth_token")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with heads.head(heads.OPEN) as open_ray:
        monkeypatch.setenv("RAY_ADDRESS", open_ray.address)
        text = looked_at(page)
    assert re.search(r"% of \d+ cores", text), text
    assert f"1 PC of the Ray at {open_ray.address}" in text


@pytest.fixture
def one_pc() -> Iterator[None]:
    """Ray in this process."""
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("one_pc")
def test_each_pc_of_a_cluster_reports_and_one_whose_process_was_killed_does_again() -> None:
    reporters = nodes.Reporters()

    def report() -> dict[str, Any]:
        for _ in range(30):
            (pc,) = reporters.pcs()
            if pc["report"] is not None:
                return pc
        pytest.fail(pc["fault"])

    pc = report()
    assert (pc["is_head"], pc["offers"]["CPU"], pc["report"]["cpus"]) == (
        True,
        1.0,
        len(os.sched_getaffinity(0)),
    )
    (reporter,) = reporters._reporters.values()
    ray.kill(reporter)
    assert report()["hostname"] == pc["hostname"]
