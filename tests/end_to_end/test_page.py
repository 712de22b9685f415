"""A sweep with the page beside it."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from pathlib import Path

from sweeps.page import server
from tests.conftest import TOY
from tests.support.steered import running

SMALL = ("--num-trials", "2", "--max-epochs", "3", "--max-concurrent", "1", "--no-preflight", "--dashboard")


def test_the_page_of_a_sweep_follows_it_and_outlives_it(tmp_path: Path) -> None:
    environment = {**os.environ, "TOY_ATTEMPTS": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "results").mkdir()
    with running(tmp_path / "results" / "seen", environment, *TOY, *SMALL) as sweep:
        sweep.wait_for("dashboard  http")
        found = re.search(r"dashboard  ((http://127\.0\.0\.1:\d+)/\?token=\S+)", sweep.printed)
        assert found is not None
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

        def shown(address: str) -> str:
            with opener.open(address, timeout=60) as answer:
                return " ".join(re.sub("<[^>]+>", " ", answer.read().decode()).split())

        (page,) = [each for each in server.open_pages() if each.url == found[2]]
        try:
            assert re.search(r"seen \S+ running", shown(found[1]))
            assert sweep.wait() == 0
            # It has started in another session, and goes on: another sweep may be on it.
            assert re.search(r"seen \S+ finished 2 of 2", shown(found[2]))
        finally:
            os.kill(page.pid, signal.SIGTERM)
