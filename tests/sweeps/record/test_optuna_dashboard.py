"""optuna-dashboard, the program itself, opens the record of a sweep as it is."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.config.sweep_folder import JOURNAL
from tests.support.dashboards import LR, sweep

pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of optuna-dashboard, which shows a trial of each end, one of them retried."""
    record = sweep(tmp_path)
    record.open_again(2, 1, "retried by the user")
    record.report(2, 2, 0.7, {"acc": 0.7}, 1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = [str(Path(sys.executable).with_name("optuna-dashboard")), "--port", str(port)]
    shown = subprocess.Popen(
        [*program, "--server", "wsgiref", str(tmp_path / JOURNAL)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        shown.kill()
        shown.wait()


def answer(url: str) -> Any:
    for _ in range(1200):
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError:
            raise
        except OSError:  # it starts
            time.sleep(0.1)
    raise AssertionError(f"nothing answers at {url}")


@pytest.mark.slow
def test_it_lists_the_sweep_and_each_attempt_of_its_trials_and_writes_nothing(
    url: str, tmp_path: Path
) -> None:
    before = (tmp_path / JOURNAL).read_bytes()
    (study,) = answer(f"{url}/api/studies")["study_summaries"]
    assert (study["study_name"], study["directions"]) == ("s", ["maximize"])
    shown = answer(f"{url}/api/studies/{study['study_id']}")
    states = [trial["state"] for trial in shown["trials"]]
    # The retry of trial 2 is a trial of its own there.
    assert states == ["Complete", "Pruned", "Fail", "Fail", "Running", "Running"]
    assert [row["value"] for row in shown["trials"][0]["intermediate_values"]] == [0.1, 0.3, 0.2]
    assert [value["name"] for value in shown["trials"][0]["params"]] == [*LR]
    assert (tmp_path / JOURNAL).read_bytes() == before
