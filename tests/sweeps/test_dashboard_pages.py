"""What a person sees of a sweep while it runs, in real Chromium: optuna-dashboard, and Ray's own pages.

The pictures are left in the test's temporary folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support import browser
from tests.support.browser import Chromium
from tests.support.dashboards import served, sweep


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with browser.chromium() as chromium:
        yield chromium


@pytest.mark.slow
def test_each_end_is_shown_with_its_reason(chromium: Chromium, tmp_path: Path) -> None:
    sweep(tmp_path)
    with served(tmp_path) as url:
        page = chromium.open(url)
        page.wait_for_text("Intermediate values")
        page.wait_for_text("Timeline")
        page.screenshot(tmp_path / "history.png")
        page.go(f"{url}/dashboard/studies/0/trials?numbers=2")
        page.wait_for_text("RuntimeError: the toy broke")
        words = page.text
        page.screenshot(tmp_path / "failed.png")
    ends = [("0", "Complete"), ("1", "Pruned"), ("2", "Fail"), ("3", "Fail"), ("4", "Running")]
    for number, state in ends:
        assert re.search(rf"Trial {number}\s+{state}", words), words
    assert (tmp_path / "failed.png").read_bytes().startswith(b"\x89PNG")


def test_it_says_that_nothing_can_be_changed(chromium: Chromium, tmp_path: Path) -> None:
    sweep(tmp_path)
    with served(tmp_path) as url:
        page = chromium.open(f"{url}/dashboard")
        answer = page.value("fetch('/api/studies/0', {method: 'DELETE'}).then(reply => reply.json())")
    assert answer["reason"].startswith("this page is read-only")


@pytest.mark.long
def test_a_running_sweep_is_seen_to_grow_and_rays_pages_show_its_node(
    chromium: Chromium, tmp_path: Path
) -> None:
    command = [
        *(
            sys.executable,
            "-m",
            "sweeps.run",
            "--dashboard",
            "--no-baseline",
            "--trainable",
            "tests.faulty.toy",
        ),
        *("--search-space", "tests.faulty.mixed", "--params", "epoch_s=1", "--num-trials", "200"),
        *("--max-epochs", "9", "--name", "live", "--results-dir", str(tmp_path)),
    ]
    environment = {**os.environ, "TOY_ATTEMPTS": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        try:
            urls = _urls(run)
            page = chromium.open(f"{urls['dashboard']}/dashboard/studies/0/trials")
            page.wait_for_text("Trial 2", 180)
            seen = int(re.findall(r"(\d+) Trials", page.text)[0])
            page.wait_for_text(f"{seen + 1} Trials", 180)
            page.screenshot(tmp_path / "growing.png")
            ray = chromium.open(f"{urls['ray']}/#/cluster")
            ray.wait_for_text("ALIVE", 120)
            ray.screenshot(tmp_path / "ray-cluster.png")
            for name, words in (("jobs", "RUNNING"), ("actors", "ResourceTrainable"), ("logs", "node")):
                ray.go(f"{urls['ray']}/#/{name}")
                ray.wait_for_text(words, 120)
                time.sleep(1)
                ray.screenshot(tmp_path / f"ray-{name}.png")
        finally:
            run.terminate()
            run.communicate(timeout=120)
    assert run.returncode == 130


def _urls(run: subprocess.Popen[str]) -> dict[str, str]:
    """What the sweep says of its pages: title to URL."""
    assert run.stdout is not None
    found: dict[str, str] = {}
    said = ""
    for line in run.stdout:
        said += line
        if match := re.match(r"(dashboard|ray) .*?(http://[\d.:]+)", line):
            found[match[1]] = match[2]
        if len(found) == 2:
            return found
    pytest.fail(said)
