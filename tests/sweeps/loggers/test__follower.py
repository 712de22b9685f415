"""The process that follows a sweep and logs it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sweeps.loggers import _follower
from tests.conftest import skip_without
from tests.sweeps.loggers.logged import event_files, of_file
from tests.sweeps.plan.test_resume import Sweep


def test_a_sweep_is_followed_to_its_last_word(tmp_path: Path) -> None:
    of = Sweep(tmp_path, loggers="tensorboard")
    with _follower.following(of.plan.config.logger_names, of.plan.folder):
        of.trial(1.0, 2.0, ended="pruned")
        of.trial(1.0, 2.0, 3.0, ended="finished")
    files = event_files(of.folder)
    assert [step for step, _ in of_file(files["trial_0001"])[0]["score"]] == [1, 2, 3]
    assert "_hparams_/session_end_info" in of_file(files["trial_0000"])[2]


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
