"""Weights & Biases: a run for each trial, read back from its files; nobody is asked, and no server."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sweeps.loggers import _follower, wandb
from sweeps.run import main as run_main
from tests.conftest import ROOT, propose, skip_without
from tests.support import children
from tests.support.dashboards import LR, sweep
from tests.sweeps.common.test_tested_versions import install
from tests.sweeps.loggers.logged import log, log_here, wandb_runs
from tests.sweeps.loggers.test_loggers import Said, followed, until
from tests.sweeps.plan.test_resume import Sweep

NOBODY = "http://127.0.0.1:9"
"""Where nobody listens."""


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("wandb")


def test_a_trial_is_a_run_of_the_group_of_its_sweep(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    log("wandb", record)
    runs = list(wandb_runs(tmp_path).values())
    assert [run.names for run in runs] == [{f"trial_{number:04d}"} for number in range(5)]
    assert all(run.groups == {"s"} for run in runs)
    config = {name: value for name, value in runs[1].config.items() if name != "_wandb"}
    assert config == {"lr": 0.1, "seed": 0, "trainable": ""}
    assert [(row["_step"], row["acc"], row["best"]) for row in runs[0].history] == [
        (1, 0.1, 0.1),
        (2, 0.3, 0.3),
        (3, 0.2, 0.3),
    ]
    assert runs[0].history[0]["_timestamp"] == pytest.approx(record.trials[0].epochs[1].time)
    statuses = ["finished", "pruned", "failed", "diverged", "unfinished"]
    assert [run.summary["status"] for run in runs] == statuses
    assert runs[2].summary["reason"] == "RuntimeError: the toy broke"
    assert [run.exit_codes for run in runs] == [[0], [0], [1], [1], [0]]
    assert math.isnan(runs[3].history[1]["acc"])


@pytest.mark.slow
def test_a_resumed_trial_continues_its_run(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    log("wandb", record)
    before = wandb_runs(tmp_path)
    for epoch in (2, 3):
        record.report(4, epoch, epoch / 10, {"acc": epoch / 10}, 1.0)
    record.end(4, "finished")
    log("wandb", record)
    log("wandb", record)
    after = wandb_runs(tmp_path)
    assert list(after) == list(before)
    *ended, continued = after.values()
    assert ended == list(before.values())[:-1], "what had ended is not written again"
    assert [(row["_step"], row["acc"]) for row in continued.history] == [(1, 0.6), (2, 0.2), (3, 0.3)]
    assert continued.summary["status"] == "finished"
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 5


def test_a_dot_in_a_name_is_a_level_of_the_config(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    propose(record, {"lr": 0.1, "model.lr": 0.2, "model.depth": 3}, LR)
    log("wandb", record)
    assert wandb_runs(tmp_path).popitem()[1].config["model"] == {"lr": 0.2, "depth": 3}


@pytest.mark.slow
def test_a_run_that_a_killed_driver_left_is_written_anew(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    log("wandb", record)
    before = next(tmp_path.glob("wandb/*-0001"))
    (before / "written.json").unlink()
    log("wandb", record)
    run = list(wandb_runs(tmp_path).values())[1]
    assert [row["acc"] for row in run.history] == [0.1, 0.2]
    assert run.exit_codes == [0]
    assert not before.exists()


def its_process() -> psutil.Process:
    (found,) = children.running("sweeps.loggers._follower")
    return found


@pytest.mark.slow
def test_a_process_that_is_killed_costs_a_line_and_is_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of, said = Sweep(tmp_path), Said(capsys)
    with followed(of, "wandb"):
        of.trial(1.0, ended="finished")
        until(lambda: len(wandb_runs(of.folder)) == 1)
        (core,) = its_process().children()
        its_process().kill()
        of.trial(2.0, ended="finished")
        until(lambda: "--loggers wandb: its process has ended. The sweep continues" in str(said))
        until(lambda: len(wandb_runs(of.folder)) == 2)
    assert str(said).count("--loggers") == 1
    assert not children.running("wandb")
    assert not psutil.wait_procs([core], timeout=60)[1], "it sees by and by that its parent was killed"


@pytest.mark.slow
def test_a_process_that_does_not_go_on_is_ended_with_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path)
    with followed(of, "wandb", end_s=3.0):
        of.trial(1.0, ended="finished")
        until(lambda: len(wandb_runs(of.folder)) == 1)
        (core,) = its_process().children()
        its_process().send_signal(signal.SIGSTOP)
    assert "--loggers wandb: some results were not written in 3 s." in capsys.readouterr().out
    until(lambda: not children.running("sweeps.loggers._follower"))
    assert not psutil.wait_procs([core], timeout=60)[1]


DRIVER = """
import pathlib, sys, time
from sweeps.loggers import _follower
with _follower.following(["wandb"], pathlib.Path(sys.argv[1])):
    time.sleep(600)
"""


@pytest.mark.slow
def test_its_processes_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    sweep(tmp_path)
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], cwd=ROOT) as driver:
        started = psutil.Process(driver.pid)
        until(lambda: bool(children.running("wandb-core", started.children(recursive=True))))
        processes = started.children(recursive=True)
        driver.kill()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("ofline", "WANDB_MODE=ofline: no such mode of Weights & Biases. Did you mean 'offline'?"),
        ("online", "WANDB_MODE=online needs an account: type `wandb login`, or unset WANDB_MODE"),
    ],
)
def test_a_mode_that_can_not_be_is_told_before_the_sweep(
    mode: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_MODE", mode)
    flags = ["--trainable", "digits_mlp", "--loggers", "wandb", "--results-dir", str(tmp_path), "--dry-run"]
    assert run_main(flags) == 2
    assert capsys.readouterr().err == f"error: --loggers wandb: {message}\n"


def test_a_release_that_lacks_what_is_used_is_told_before_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what a sweep runs in a process of its own; pip is asked for the same release."""
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "wandb", "0.19.9")
    wandb.print_fault()
    assert capsys.readouterr().out.startswith("W&B 0.19.9 is too old; 0.19.10 or newer is needed: ")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["wandb"] == [f"wandb>={wandb.OLDEST}"]


def test_a_release_without_what_came_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W&B 0.26: settings and runs have less, and `login` can't be told not to ask."""

    class UsageError(Exception):
        """Raised where nobody is logged in."""

    def login(verify: bool) -> bool:
        raise UsageError

    def init(id: str, settings: SimpleNamespace, **_: Any) -> SimpleNamespace:
        assert not hasattr(settings, "finish_timeout_raises")
        settings.sync_dir = tmp_path / "wandb" / f"offline-run-1-{id}"
        settings.sync_dir.mkdir(parents=True)
        nothing = {"log": lambda *_, **__: None, "finish": lambda _: None}
        return SimpleNamespace(settings=settings, starting_step=0, summary={}, **nothing)

    old = SimpleNamespace(
        __spec__=ModuleSpec("wandb", None), errors=SimpleNamespace(UsageError=UsageError), login=login,
        setup=lambda: SimpleNamespace(settings=SimpleNamespace(mode="online")), Settings=SimpleNamespace,
        init=init, teardown=lambda: None,
    )  # fmt: skip
    for name, value in wandb.DEFAULTS.items():
        monkeypatch.setenv(name, value)
    record = sweep(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", old)
    log_here("wandb", tmp_path, record.about, is_on=False)
    assert len([*tmp_path.glob("wandb/offline-run-1-*/written.json")]) == 5


def test_disabled_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    log("wandb", sweep(tmp_path))
    assert not (tmp_path / "wandb").exists()


@pytest.mark.slow
def test_without_an_account_no_connection_leaves_this_pc(tmp_path: Path) -> None:
    sweep(tmp_path)
    remote: set[tuple[str, int]] = set()
    is_over = threading.Event()

    def watch(process: psutil.Process) -> None:
        while not is_over.is_set():
            with contextlib.suppress(psutil.Error):
                for each in (process, *process.children(recursive=True)):
                    for connection in each.net_connections("inet"):
                        remote.add(connection.raddr or ("", 0))
            time.sleep(0.005)

    with _follower.following(["wandb"], tmp_path):
        until(lambda: bool(children.running("sweeps.loggers._follower")))
        thread = threading.Thread(target=watch, args=(its_process(),))
        thread.start()
        until(lambda: len(wandb_runs(tmp_path)) == 4)
    is_over.set()
    thread.join()
    assert {host for host, _ in remote} <= {"", "127.0.0.1", "::1"}


@pytest.mark.slow
def test_a_server_that_is_away_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an account, of which W&B knows before it asks the server."""
    monkeypatch.setenv("WANDB_BASE_URL", NOBODY)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "3")
    of, said = Sweep(tmp_path), Said(capsys)
    with followed(of, "wandb", end_s=5.0):
        of.trial(1.0)
        until(lambda: re.search(r"--loggers wandb: CommError: .* The sweep continues", str(said)))
    assert str(said).count("The sweep continues") == 1
    assert os.environ["WANDB_API_KEY"] not in str(said)
