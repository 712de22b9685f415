"""TensorBoard: what its own reader finds is what the record holds, once."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution

from sweeps.loggers import tensorboard
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.dashboards import sweep
from tests.sweeps.loggers.logged import event_files, log, of_file, rows


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


def test_a_hyperparameter_that_is_null_is_an_empty_cell_of_tensorboard(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"sweep": "s", "metric": "acc", "trainable": "t"})
    for clip in (None, 0.5):
        propose(record, {"clip": clip}, {"clip": CategoricalDistribution([None, 0.5])})
    log("tensorboard", record)
    found = [of_file(file)[1] for file in event_files(tmp_path).values()]
    assert found == [{"seed": 0.0, "trainable": ""}, {"clip": 0.5, "seed": 0.0, "trainable": ""}]


def test_tensorboard_is_the_same_epoch_by_epoch_and_at_once(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    logger = tensorboard.Logger.build(tmp_path, record.about)
    for epoch in range(2, 6):
        for trial in rows(record.folder):
            logger.write(trial, is_on=True)
        record.report(4, epoch, epoch / 10, {"acc": epoch / 10}, 1.0)
    record.end(4, "finished")
    for trial in rows(record.folder)[4:]:
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
