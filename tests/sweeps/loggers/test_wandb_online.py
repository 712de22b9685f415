"""Weights & Biases with an account: what its own uploader sends to a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import skip_without
from tests.support import wandb_server
from tests.support.dashboards import sweep
from tests.support.wandb_server import Server
from tests.sweeps.loggers.logged import log
from tests.sweeps.loggers.test_loggers import Said, followed, until
from tests.sweeps.plan.test_resume import Sweep

KEY = "0" * 40


@pytest.fixture
def server(nothing_set_up: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, on which the user has an account."""
    skip_without("wandb")
    with wandb_server.served() as found:
        monkeypatch.setenv("WANDB_BASE_URL", found.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield found


def names(server: Server) -> dict[str, list[int]]:
    return {run.display_name: run.steps for run in server.runs.values()}


@pytest.mark.long  # it sends every 15 s
def test_each_epoch_is_sent_while_the_trial_runs(server: Server, tmp_path: Path) -> None:
    of = Sweep(tmp_path)
    with followed(of, "wandb"):
        number = of.trial(1.0)
        until(lambda: names(server) == {"trial_0000": [1]})
        of.record.report(number, 2, 2.0, {"score": 2.0}, 1.0)
        until(lambda: names(server) == {"trial_0000": [1, 2]})
        of.record.end(number, "finished")
    (run,) = server.runs.values()
    assert (run.group, run.exit_codes) == ("s", [0])
    assert [row["score"] for row in run.history.values()] == [1.0, 2.0]


@pytest.mark.slow
def test_a_resumed_trial_continues_its_run(server: Server, tmp_path: Path) -> None:
    record = sweep(tmp_path)
    log("wandb", record)
    before = names(server)
    assert before["trial_0004"] == [1]
    record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)
    record.end(4, "finished")
    log("wandb", record)
    assert names(server) == {**before, "trial_0004": [1, 2]}


@pytest.mark.slow
def test_more_runs_than_are_open_at_a_time(server: Server, tmp_path: Path) -> None:
    of = Sweep(tmp_path)
    for _ in range(18):
        of.trial(1.0)
    log("wandb", of.record, is_on=True)
    assert len(server.runs) == 18
    assert sum(len(run.exit_codes) for run in server.runs.values()) >= 2


@pytest.mark.slow
def test_a_server_that_goes_away_does_not_keep_the_sweep(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "3")
    monkeypatch.setenv("WANDB_FINISH_TIMEOUT", "3")
    of, said = Sweep(tmp_path), Said(capsys)
    with followed(of, "wandb", end_s=20.0):
        of.trial(1.0)
        until(lambda: len(server.runs) == 1)
        server.shutdown()
        server.server_close()
        of.trial(2.0, ended="finished")
        until(lambda: "The sweep continues" in str(said))
    assert str(said).count("The sweep continues") == 1


@pytest.mark.slow
def test_runs_that_were_offline_are_uploaded_later_and_again_after_a_resume(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = sweep(tmp_path)

    def log_offline() -> None:
        with monkeypatch.context() as offline:
            offline.setenv("WANDB_MODE", "offline")
            log("wandb", record)

    def upload() -> None:
        folders = map(str, tmp_path.glob("wandb/offline-run-*"))
        command = [sys.executable, "-m", "wandb", "sync", *folders]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    log_offline()
    assert not server.runs
    upload()
    steps = {"trial_0000": [1, 2, 3], "trial_0001": [1, 2], "trial_0002": [1], "trial_0003": [1, 2]}
    assert names(server) == {**steps, "trial_0004": [1]}
    record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)
    record.end(4, "finished")
    log_offline()
    upload()
    assert names(server) == {**steps, "trial_0004": [1, 2]}


@pytest.mark.slow
def test_what_was_begun_offline_goes_on_online(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = sweep(tmp_path)
    with monkeypatch.context() as offline:
        offline.setenv("WANDB_MODE", "offline")
        log("wandb", record)
    record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)
    log("wandb", record)
    assert names(server) == {"trial_0004": [1, 2]}
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 4, "what is online need not be uploaded"
