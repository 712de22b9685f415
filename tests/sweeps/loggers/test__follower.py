"""The process that follows a sweep and logs it."""

from __future__ import annotations

import errno
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sweeps.loggers import _follower
from tests.conftest import skip_without
from tests.sweeps.loggers import hanging_logger
from tests.sweeps.loggers.logged import event_files, of_file
from tests.sweeps.loggers.test_loggers import Said, followed, until
from tests.sweeps.plan.test_resume import Sweep

HANGING = hanging_logger.__name__


@pytest.mark.slow
def test_a_sweep_is_followed_to_its_last_word(tmp_path: Path) -> None:
    of = Sweep(tmp_path, loggers="tensorboard")
    with _follower.following(of.plan.config.logger_names, of.plan.folder):
        of.trial(1.0, 2.0, ended="pruned")
        of.trial(1.0, 2.0, 3.0, ended="finished")
    files = event_files(of.folder)
    assert [step for step, _ in of_file(files["trial_0001"])[0]["score"]] == [1, 2, 3]
    assert "_hparams_/session_end_info" in of_file(files["trial_0000"])[2]


@pytest.mark.slow
def test_a_logger_in_trouble_costs_a_line_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path, loggers="tensorboard")
    (of.folder / "tensorboard").write_text("in its way")
    intervals = _follower.Intervals(retry_s=0.05)
    with _follower.following(of.plan.config.logger_names, of.plan.folder, intervals):
        of.trial(1.0, ended="finished")
        said, until = "", time.monotonic() + 60
        while "NotADirectoryError" not in said and time.monotonic() < until:
            said += capsys.readouterr().out
            time.sleep(0.05)
        (of.folder / "tensorboard").unlink()
    assert said.count("--loggers tensorboard: NotADirectoryError") == 1
    assert "The sweep continues" in said
    assert "score" in of_file(event_files(of.folder)["trial_0000"])[0]


@pytest.mark.slow
def test_a_server_that_is_away_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    of = Sweep(tmp_path, loggers="mlflow")
    with _follower.following(of.plan.config.logger_names, of.plan.folder):
        of.trial(1.0, ended="finished")
    assert "--loggers mlflow: MlflowException: " in capsys.readouterr().out


@pytest.mark.slow
def test_one_that_hangs_is_told_and_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of, said = Sweep(tmp_path), Said(capsys)
    with followed(of, HANGING, answer_s=5.0):
        of.trial(1.0, ended="finished")
        until((of.folder / hanging_logger.WRITTEN).exists)
        time.sleep(6.0)  # with nothing to write it shows that it lives
    lines = [line for line in str(said).splitlines() if line.startswith("--loggers")]
    then = "The sweep continues; the logger retries every 0.05 s."
    assert lines == [f"--loggers {HANGING}: it did not answer in 5 s. {then}"]


def test_one_that_hangs_at_the_end_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of, said = Sweep(tmp_path), Said(capsys)
    with followed(of, HANGING, end_s=0.5):
        of.trial(1.0, ended="finished")
        until((of.folder / hanging_logger.HANGS).exists)
    until(lambda: f"logger {HANGING}" not in [thread.name for thread in threading.enumerate()])
    lines = [line for line in str(said).splitlines() if line.startswith("--loggers")]
    assert lines == [f"--loggers {HANGING}: some results were not written in 0.5 s."]


@pytest.mark.slow
@pytest.mark.parametrize("fails", [1, 1000])
def test_a_process_that_can_not_start_is_told_and_tried_again(
    fails: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, said, popen, tries = Sweep(tmp_path), Said(capsys), subprocess.Popen, iter(range(fails))

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        if next(tries, None) is not None:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return popen(*args, **options)

    monkeypatch.setattr(_follower.subprocess, "Popen", start)
    with followed(of, "tensorboard"):
        of.trial(1.0, ended="finished")
        until(lambda: "The sweep continues" in str(said))
    lines = [line for line in str(said).splitlines() if line.startswith("--loggers")]
    assert all("Resource temporarily unavailable" in line for line in lines)
    assert ["Some results were not written." in line for line in lines] == [False, True][: min(fails, 2)]
    assert len(event_files(of.folder)) == (1 if fails == 1 else 0)
