"""Loggers: what they hold is what the record holds, once, whatever happened in between."""

from __future__ import annotations

import dataclasses
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.storages import JournalStorage

from sweeps.common.errors import UserError
from sweeps.config import cli, plugins
from sweeps.config.sweep_folder import JOURNAL
from sweeps.loggers import _follower, tensorboard
from sweeps.record.journal_reader import ReadOnlyJournal
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow, row_of
from tests.conftest import propose, skip_without_mlflow
from tests.sweeps.plan.test_resume import Sweep
from tests.sweeps.test_dashboard import LR, sweep

Events = dict[str, list[tuple[int, float]]]


def of_file(path: Path) -> tuple[Events, dict[str, Any], list[str]]:
    """Scalars by tag, hparams, and the tags of all else, by TensorBoard's own reader."""
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader",
        reason="TensorBoard's reader is not installed (make mlflow)",
    )
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util import tensor_util

    scalars: Events = {}
    hparams: dict[str, Any] = {}
    others = []
    for event in loader.EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                number = float(tensor_util.make_ndarray(value.tensor))
                scalars.setdefault(value.tag, []).append((event.step, number))
                continue
            others.append(value.tag)
            if value.tag == "_hparams_/session_start_info":
                data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
                for name, hyperparameter in data.session_start_info.hparams.items():
                    hparams[name] = getattr(hyperparameter, hyperparameter.WhichOneof("kind"))
    return scalars, hparams, others


def event_files(folder: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in sorted(folder.glob("tensorboard/*/events.out.tfevents.*"))}


def rows(record: Record) -> list[TrialRow]:
    """As a logger gets them."""
    storage = JournalStorage(ReadOnlyJournal(record.folder / JOURNAL))
    return [row_of(frozen, "t") for frozen in storage.get_all_trials(0)]


def log(name: str, record: Record, is_on: bool = False) -> None:
    """By a logger that has just been started."""
    logger = plugins.find("logger", name).build(record.folder, record.about)
    for trial in rows(record):
        logger.write(trial, is_on)


def test_tensorboard_reads_each_metric_by_epoch_and_the_hyperparameters(tmp_path: Path) -> None:
    log("tensorboard", sweep(tmp_path))
    files = event_files(tmp_path)
    assert list(files) == [f"trial_{number:04d}" for number in range(5)]
    scalars, hparams, others = of_file(files["trial_0000"])
    assert scalars["acc"] == [(1, pytest.approx(0.1)), (2, pytest.approx(0.3)), (3, pytest.approx(0.2))]
    assert [value for _, value in scalars["best"]] == pytest.approx([0.1, 0.3, 0.3])
    assert hparams == {"lr": 0.0, "seed": 0.0, "trainable": ""}
    assert others == ["_hparams_/session_start_info", "status/text_summary", "_hparams_/session_end_info"]
    diverged = of_file(files["trial_0003"])[0]["acc"]
    assert [step for step, _ in diverged] == [1, 2]
    assert math.isnan(diverged[1][1])
    assert "_hparams_/session_end_info" not in of_file(files["trial_0004"])[2]


def test_tensorboard_is_the_same_epoch_by_epoch_and_at_once(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    logger = tensorboard.build(tmp_path, record.about)
    for epoch in range(2, 6):
        for trial in rows(record):
            logger.write(trial, is_on=True)
        record.report(4, epoch, epoch / 10, {"acc": epoch / 10}, 1.0)
    record.end(4, "finished")
    for trial in rows(record)[4:]:
        logger.write(trial, is_on=True)
    live = event_files(tmp_path)["trial_0004"].read_bytes()
    shutil.rmtree(tmp_path / "tensorboard")
    log("tensorboard", record)
    assert event_files(tmp_path)["trial_0004"].read_bytes() == live


@pytest.mark.parametrize("cut", [0, 1, 100, 200])
def test_tensorboard_goes_on_from_whatever_a_dying_driver_left(cut: int, tmp_path: Path) -> None:
    record = sweep(tmp_path)
    log("tensorboard", record)
    path = event_files(tmp_path)["trial_0001"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut])
    log("tensorboard", record)
    assert path.read_bytes() == whole
    path.write_bytes(b"something else")
    log("tensorboard", record)
    assert path.read_bytes() == whole


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[int, Any]]:
    """The runs of a sweep's folder, by trial, as MLflow has them."""
    skip_without_mlflow()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def runs(folder: Path) -> dict[int, Any]:
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
        (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
        assert experiment.name == "s"
        found = client.search_runs([experiment.experiment_id])
        assert len({run.data.tags["trial"] for run in found}) == len(found), "a run is there twice"
        for run in found:
            history = client.get_metric_history(run.info.run_id, "acc")
            run.history = [(metric.step, metric.value) for metric in history]
        return {int(run.data.tags["trial"]): run for run in found}

    return runs


def test_mlflow_has_a_run_a_trial(tmp_path: Path, mlflow: Callable[[Path], dict[int, Any]]) -> None:
    record = sweep(tmp_path)
    log("mlflow", record)
    runs = mlflow(tmp_path)
    states = [runs[number].info.status for number in range(5)]
    assert states == ["FINISHED", "KILLED", "FAILED", "FAILED", "SCHEDULED"]
    assert runs[0].history == [(1, 0.1), (2, 0.3), (3, 0.2)]
    assert runs[1].data.params == {"lr": "0.1", "seed": "0"}
    assert runs[2].data.tags["reason"] == "RuntimeError: the toy broke"
    assert runs[3].data.tags["status"] == "diverged"
    assert math.isnan(runs[3].history[1][1])


def test_mlflow_goes_on_in_the_same_runs(tmp_path: Path, mlflow: Callable[[Path], dict[int, Any]]) -> None:
    record = sweep(tmp_path)
    log("mlflow", record)
    before = mlflow(tmp_path)
    record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)
    log("mlflow", record, is_on=True)
    assert mlflow(tmp_path)[4].info.status == "RUNNING"
    record.report(4, 3, 0.8, {"acc": 0.8}, 1.0)
    record.end(4, "finished")
    log("mlflow", record)
    after = mlflow(tmp_path)
    assert [run.info.run_id for run in after.values()] == [run.info.run_id for run in before.values()]
    assert after[4].history == [(1, 0.6), (2, 0.7), (3, 0.8)]
    assert after[4].info.status == "FINISHED"
    assert after[0].history == before[0].history


@pytest.mark.slow
def test_a_name_that_mlflow_does_not_take_is_changed(
    tmp_path: Path, mlflow: Callable[[Path], dict[int, Any]]
) -> None:
    record = Record.create(tmp_path, "s", "max", {"sweep": "s", "metric": "acc"})
    propose(record, {"lr": 0.1}, LR)
    record.report(0, 1, 0.5, {"acc": 0.5, "top-5 (%)": 1.0}, 1.0)
    log("mlflow", record)
    assert mlflow(tmp_path)[0].data.metrics == {"acc": 0.5, "top-5 ___": 1.0}


def test_a_sweep_is_followed_to_its_last_word(tmp_path: Path) -> None:
    of = Sweep(tmp_path, loggers="tensorboard")
    with _follower.following(of.plan.config.logger_names, of.plan.folder, of.record):
        of.trial(1.0, 2.0, ended="pruned")
        of.trial(1.0, 2.0, 3.0, ended="finished")
    files = event_files(of.folder)
    assert [step for step, _ in of_file(files["trial_0001"])[0]["score"]] == [1, 2, 3]
    assert "_hparams_/session_end_info" in of_file(files["trial_0000"])[2]


def test_a_logger_in_trouble_costs_a_line_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_follower, "RETRY_S", 0.05)
    of = Sweep(tmp_path, loggers="tensorboard")
    (of.folder / "tensorboard").write_text("in its way")
    with _follower.following(of.plan.config.logger_names, of.plan.folder, of.record):
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
    skip_without_mlflow()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    of = Sweep(tmp_path, loggers="mlflow")
    with _follower.following(of.plan.config.logger_names, of.plan.folder, of.record):
        of.trial(1.0, ended="finished")
    assert "--loggers mlflow: MlflowException: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["tensorbord"], "--loggers tensorbord: no such logger. Did you mean 'tensorboard'?"),
        (["mlflow", "mlflow"], "--loggers mlflow mlflow: a name is given twice"),
        (["mlflow,tensorboard"], "--loggers mlflow,tensorboard: separate names by spaces"),
    ],
)
def test_a_mistake_is_a_line(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plugins.find("logger", cli.parse(["--loggers", *names]).logger_names[0])


def test_one_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.loggers.mlflow.NEEDS", ("not_there", "mlflow-skinny"))
    with pytest.raises(UserError, match=r"not_there is not installed: python -m pip install mlflow-skinny"):
        plugins.find("logger", "mlflow")


def test_one_or_several_may_be_named() -> None:
    assert cli.parse(["--loggers", "mlflow"]).logger_names == ["mlflow"]
    both = cli.parse(["--loggers", "tensorboard", "mlflow", "--seed", "1"])
    assert (both.logger_names, both.seed) == (["tensorboard", "mlflow"], 1)
    assert cli.parse([]).logger_names == []
    assert dataclasses.replace(both, loggers=None).logger_names == []
