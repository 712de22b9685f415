"""A sweep of a user's own project handed to the head of a cluster, which has never seen that project."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.job_submission import JobSubmissionClient

from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.config.control_commands import WITHDRAWN
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import submit
from sweeps.ray_start import ray_connection
from sweeps.ray_start.ray_folder import State
from sweeps.record import lock
from sweeps.record.control_requests import Inbox
from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.support import project
from tests.support.heads import Head, head, with_token, write_token
from tests.support.searched import peak, searched

EPOCHS = ("--params", "epoch_s=0.5")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of who started Ray on the head."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_token(tmp_path_factory.mktemp("token") / "auth_token")


@pytest.fixture(scope="module")
def started(home: Path, token: Path) -> Iterator[Head]:
    """A head with a token and a dashboard; this package is not installed on it."""
    activated = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {**with_token(token), "HOME": str(home), "PYTHONPATH": "", "TOY_ATTEMPTS": str(home)}
    settings["PATH"] = activated
    with head(settings, with_doors=True) as started:
        yield started


def _begin(folder: Path, token: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", "--submit", *arguments],
        cwd=folder,
        env={**os.environ, **with_token(token), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _wait_for(record: Path, trials: int) -> None:
    end = time.monotonic() + 240
    while not record.is_file() or len(Record.read(record.parent).trials) < trials:
        assert time.monotonic() < end, f"no {trials} trials in {record}"
        time.sleep(0.5)


@pytest.mark.long
def test_a_sweep_is_submitted_followed_and_resumed(
    started: Head, home: Path, token: Path, tmp_path: Path
) -> None:
    where = ("--address", started.address)
    with _begin(project.write(tmp_path), token, *where, *project.RUN) as run:
        said, faults = run.communicate(timeout=300)
    assert run.returncode == 0, said + faults
    assert re.search(r"^Submitted  mine as the Ray job mine-[0-9a-f]{6}; it continues", said, flags=re.M)
    assert "\nBest       trial" in said
    record = Record.read(home / "results" / "mine")
    assert [trial.status for trial in record.trials] == ["finished"] * 3
    plug_ins = [word for word in project.RUN if word.startswith("--") or "my_project" in word][:4]
    again = ("--resume", "results/mine", "--num-trials", "4", *plug_ins)
    more = ("--searcher", "my_project.search", "--scheduler", "my_project.prune")
    with _begin(tmp_path, token, "--address", f"http://{started.dashboard}", *again, *more) as run:
        said, faults = run.communicate(timeout=300)
    assert run.returncode == 0, said + faults
    assert len(Record.read(home / "results" / "mine").trials) == 4


@pytest.mark.long
def test_it_ends_without_the_pc_that_submitted_it(
    started: Head, home: Path, token: Path, tmp_path: Path
) -> None:
    arguments = ("--address", started.address, *project.RUN, *EPOCHS, "--name", "alone")
    with _begin(project.write(tmp_path), token, *arguments) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("Submitted"):
                break
        os.killpg(run.pid, signal.SIGKILL)
    folder = home / "results" / "alone"
    end = time.monotonic() + 240
    while not (folder / "report.html").is_file():
        assert time.monotonic() < end, "the sweep has not ended"
        time.sleep(0.5)
    assert [trial.status for trial in Record.read(folder).trials] == ["finished"] * 3


@pytest.mark.long
def test_one_waits_in_the_queue_of_the_head_without_the_pc_that_submitted_it(
    started: Head, home: Path, token: Path, tmp_path: Path
) -> None:
    where, folder = ("--address", started.address), project.write(tmp_path)
    first = (*where, *project.RUN, "--params", "epoch_s=3600", "--name", "first")
    second = (*where, *project.RUN, "--name", "second", "--queue", "--priority", "3")
    with _begin(folder, token, *first) as one:
        _wait_for(home / "results" / "first" / "record.journal", 1)
        with _begin(folder, token, *second) as two:
            assert two.stdout is not None
            said = next(line for line in two.stdout if line.startswith("Waits in the queue"))
            assert said == "Waits in the queue: first runs.\n"
            runs, waits = _queue(token, started.address)
            assert (runs["name"], runs["status"], waits["name"]) == ("first", "running", "second")
            assert (waits["place"], waits["waits_for"], waits["priority"]) == (1, ["first"], 3)
            os.killpg(two.pid, signal.SIGKILL)
        assert Record.read(home / "results" / "second").trials == []
        os.kill(runs["pid"], signal.SIGKILL)
        one.communicate(timeout=120)
    _wait_for(home / "results" / "second" / "record.journal", 3)
    end = time.monotonic() + 120
    while _queue(token, started.address):
        assert time.monotonic() < end, "it has not ended"
    assert [each.status for each in Record.read(home / "results" / "second").trials] == ["finished"] * 3


def _queue(token: Path, address: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "sweeps", "queue", "--address", address, "--json"],
        cwd=ROOT, env={**os.environ, **with_token(token)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["sweeps"])


def _control(folder: Path, token: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sweeps.control", *arguments],
        cwd=folder,
        env={**os.environ, **with_token(token), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.long
def test_a_submitted_sweep_is_steered_from_the_pc_that_submitted_it(
    started: Head, home: Path, token: Path, tmp_path: Path
) -> None:
    where = ("--address", started.address)
    arguments = (*where, *project.RUN, "--params", "epoch_s=15", "--name", "steered")
    with _begin(project.write(tmp_path), token, *arguments) as run:
        _wait_for(home / "results" / "steered" / "record.journal", 1)
        refused = _control(tmp_path, token, "results/steered", "stop", "7", *where)
        assert refused.returncode == 2, refused.stdout + refused.stderr
        assert refused.stderr.splitlines()[-1].startswith("error: stop 7: no such trial; 1 trial has begun")
        done = _control(tmp_path, token, "results/steered", "finish", *where)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("No new trial begins")
        said, faults = run.communicate(timeout=300)
    assert run.returncode == 0, said + faults
    assert f"control results/steered --address {started.address} COMMAND" in said
    record = Record.read(home / "results" / "steered")
    assert len(record.trials) < 3
    assert [each.command for each in record.info.steered] == ["finish"]
    none = _control(tmp_path, token, "results/steered", "go", "--address", f"http://{started.dashboard}")
    assert none.returncode == 2
    assert "the sweep is finished. For more trials: " in none.stderr


@pytest.mark.long
def test_ctrl_c_leaves_it_running_and_a_mistake_is_that_of_the_sweep(
    started: Head, home: Path, token: Path, tmp_path: Path
) -> None:
    where = ("--address", started.address)
    arguments = (*where, *project.RUN, *EPOCHS, "--name", "left")
    with _begin(project.write(tmp_path), token, *arguments) as run:
        _wait_for(home / "results" / "left" / "record.journal", 1)
        os.killpg(run.pid, signal.SIGINT)
        _, faults = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "No longer followed; the sweep continues on the head." in faults
    _wait_for(home / "results" / "left" / "record.journal", 3)
    with _begin(tmp_path, token, *where, *project.RUN, "--name", "left") as run:
        said, _ = run.communicate(timeout=300)
    assert run.returncode == 2
    assert "exists already; to continue that sweep: " in said


@pytest.mark.long
def test_ctrl_c_withdraws_a_command_that_was_not_taken_up(
    started: Head, home: Path, token: Path, tmp_path: Path
) -> None:
    """A sweep on the head that is busy: this process holds its lock, and looks at no command."""
    folder = searched(home / "results", "busy", peak(0.03), num_trials=2).record.folder
    with lock.held(folder):
        inbox = Inbox(folder)
        inbox.open()
        asking = subprocess.Popen(
            [sys.executable, "-m", "sweeps.control", "results/busy", "pause", "--address", started.address],
            cwd=tmp_path,
            env={**os.environ, **with_token(token), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        waiting, end = folder / "control" / "requests", time.monotonic() + 120
        while not any(waiting.glob("*.json")):
            assert asking.poll() is None, asking.communicate()
            assert time.monotonic() < end, "no command has come"
            time.sleep(0.1)
        asking.send_signal(signal.SIGINT)
        said, faults = asking.communicate(timeout=60)
        assert (asking.returncode, said) == (130, "")
        assert faults.splitlines()[-1] == "Withdrawn: nothing has changed."
        assert inbox.take() == ([], [])


def test_a_fault_names_the_flag_that_was_typed() -> None:
    address = "http://127.0.0.1:9"  # nobody listens there
    with pytest.raises(UserError, match=rf"^--address {address}: Ray's dashboard"):
        submit.control(address, "results/s", ["pause"])
    config = SweepConfig.from_settings(trainable="digits_mlp", submit=True, address=address)
    with pytest.raises(UserError, match=r"^--submit: Ray's dashboard"):
        submit.submit(config)


@pytest.mark.parametrize(
    ("address", "others", "found", "is_refused"),
    [
        ("10.0.0.1:6379", [], "http://127.0.0.1:8265", True),
        ("http://127.0.0.1:8265", [], "http://127.0.0.1:8265", True),
        ("http://localhost:8265/", [], "http://localhost:8265/", True),
        ("http://127.0.0.1:8266", [], "http://127.0.0.1:8266", False),
        ("10.0.0.1:6379", [], "http://10.0.0.1:8265", False),
        ("127.0.0.1:41234", [], "http://127.0.0.1:8265", False),
        ("auto", [], "http://127.0.0.1:8265", False),
        ("auto", ["10.0.0.1:6379"], "http://127.0.0.1:8265", True),
    ],
)
def test_no_job_for_a_cluster_comes_to_the_own_ray_of_this_pc(
    address: str, others: list[str], found: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both dashboards listen at 127.0.0.1:8265, each on its PC, and Ray's client takes the nearer one."""
    own = State(address="127.0.0.1:41234", boot="", processes={}, versions={}, dashboard_url="127.0.0.1:8265")
    folders = [SimpleNamespace(state=lambda: own), SimpleNamespace(state=lambda: None)]
    monkeypatch.setattr(submit, "ray_folders", lambda: folders)
    monkeypatch.setattr(ray_connection, "heads_here", lambda: [own.address, *others])
    client = SimpleNamespace(get_address=lambda: found)
    monkeypatch.setattr(submit, "JobSubmissionClient", lambda _: client)
    said = r"^--submit: 127\.0\.0\.1:8265 is the dashboard of your own Ray on this PC"
    with pytest.raises(UserError, match=said) if is_refused else nullcontext():
        submit._client(address, "--submit")


class _Waking:
    """A head that takes a job when it has been asked so often."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.taken: list[str] = []

    def submit_job(self, *, entrypoint: str) -> str:
        if self.answers:
            raise RuntimeError(f"Request failed with status code 500: {self.answers.pop(0)}")
        self.taken.append(entrypoint)
        return entrypoint


def test_a_head_that_has_just_started_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    head = _Waking(["No available agent to submit job, please try again later."] * 2)
    submit.hand_over(cast(JobSubmissionClient, head), "--submit", again_s=0, entrypoint="true")
    assert head.taken == ["true"]
    assert capsys.readouterr().out.count("The head does not accept jobs yet") == 2


def test_a_job_that_is_refused_is_not_asked_for_again() -> None:
    head = _Waking(["the disk is full"])
    with pytest.raises(UserError, match=r"^--address pc1: .*the disk is full"):
        submit.hand_over(cast(JobSubmissionClient, head), "--address pc1", entrypoint="true")
    assert head.taken == []


class _Stopped:
    """A head from which nothing has been asked yet when Ctrl-C is typed."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_job_status(self, job: str) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("Request failed with status code 404: Job x does not exist."), WITHDRAWN),
        (ConnectionError("refused"), "refused. The sweep's screen says whether it has taken the command up."),
    ],
)
def test_ctrl_c_before_the_command_was_submitted_withdraws_it(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit._withdraw(cast(JobSubmissionClient, _Stopped(error)), "x") == 130
    assert capsys.readouterr().err.strip() == said


def entrypoint(monkeypatch: pytest.MonkeyPatch, typed: str) -> str:
    """What the head's shell runs."""
    monkeypatch.setattr(sys, "argv", ["run.py", *typed.split()])
    return submit._entrypoint(cli.parse()).partition("exec ")[2]


def test_all_that_is_typed_beside_resume_is_for_the_head_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "--trials-per-gpu 2 --confirm 0 --trainable mine.a mine.b --num-trials=9 --force"
    ran = entrypoint(monkeypatch, f"--submit --address HEAD:6379 --resume results/s {typed}")
    begin = "python -m sweeps.run --address auto"
    assert ran == f'{begin} {typed} --resume "$HOME"/results/s'


def test_folders_are_of_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_DATA_DIR", "")
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", "")
    typed = "--submit --address HEAD:6379 --data-dir data --prepared-dir=~/prepared --results-dir /results"
    ran = entrypoint(monkeypatch, typed)
    assert ran.endswith(' --data-dir "$HOME"/data --prepared-dir "$HOME"/prepared --results-dir /results')


def test_a_sweep_waits_on_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = "--submit --address HEAD:6379 --queue --priority 7"
    ran = entrypoint(monkeypatch, f"{submitted} --beside")
    assert "--config sweep.yaml --queue --priority 7 --beside " in ran
    resumed = entrypoint(monkeypatch, f"{submitted} --resume results/s")
    assert "--address auto --queue --priority 7 --resume " in resumed
