"""A model that logs by itself trains: its numbers are metrics, the rest is dropped and told once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import TensorBoardLogger

from sweeps.training.checkpoints import trained_model
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.trial_logger import TrialLogger
from tests.support.trainables import as_trainable, run_through
from tests.sweeps.training.test_lightning_projects import CONFIG, Net, scores, trainable, trained


class Logs(Net):
    """Calls what models call, of TensorBoard, W&B, MLflow, Comet and Neptune."""

    def on_validation_epoch_end(self) -> None:
        assert self.logger
        assert not isinstance(self.logger, TensorBoardLogger)
        logger: Any = self.logger
        experiment = logger.experiment
        experiment.add_scalar("tensorboard", torch.tensor(1.5), self.current_epoch)
        experiment.add_scalars("pair", {"a": 1, "b": np.float32(2)}, global_step=self.global_step)
        experiment.log({"wandb": 3, "table": object(), "epoch": self.current_epoch})
        experiment.log_metric("run-id", "mlflow", 4.0)
        experiment.log_metric("comet", 5.0, step=3)
        experiment.log_metric(logger.run_id, "mlflow of this run", 4.5)
        experiment.report_scalar(title="loss", series="val", iteration=3, value=0.5)
        experiment.track(8.0, name="aim", context={"subset": "val"})
        experiment["neptune/series"].append(7.0)
        experiment["neptune/field"] = 7.5
        experiment.summary["best"] = 9.0
        experiment.log({"nested": {"a": 1.0, "b": 2.0}})
        for each in logger:
            each.log_metrics({"each": 1.0})
        assert Path("a", logger.run_id, experiment.name, str(experiment.id)) == Path("a")
        logger.log_metrics({"lightning": torch.tensor([6.0])}, step=self.global_step)
        experiment.add_image("image", torch.zeros(3, 4, 4), self.current_epoch)
        logger.log_image(key="samples", images=[torch.zeros(3, 4, 4)])
        logger.watch(self)
        logger.log_hyperparams({"lr": 0.1})
        experiment.config.update({"depth": 3})
        experiment[f"image/{self.global_step}"].upload(object())
        experiment["note"] = "a text"
        with experiment.train():
            pass
        Path(logger.log_dir, f"{self.current_epoch}.txt").write_text("a file of the model")
        assert Path(experiment.get_logdir()).is_dir()
        assert Path(str(self.trainer.log_dir)).is_dir()
        assert self.trainer.checkpoint_callback is not None
        assert not self.trainer.checkpoint_callback.best_model_path


NUMBERS = {
    "tensorboard": 1.5,
    "pair/a": 1.0,
    "pair/b": 2.0,
    "wandb": 3.0,
    "mlflow": 4.0,
    "comet": 5.0,
    "lightning": 6.0,
    "mlflow of this run": 4.5,
    "loss/val": 0.5,
    "aim": 8.0,
    "neptune/series": 7.0,
    "neptune/field": 7.5,
    "best": 9.0,
    "nested/a": 1.0,
    "nested/b": 2.0,
    "each": 1.0,
}


def test_numbers_become_metrics_and_the_rest_is_dropped_with_one_word() -> None:
    epochs, _ = trained(trainable(Logs))
    for epoch in epochs:
        assert dict(epoch.metrics) == {**NUMBERS, "val_acc": epoch.score}
    for call in ("experiment.add_image", "log_image", "experiment.config.update", "watch"):
        assert f"self.logger.{call} is dropped" in epochs[0].notice
    assert "log_hyperparams" not in epochs[0].notice
    assert [epoch.notice for epoch in epochs[1:]] == ["", ""]


def test_files_of_the_model_are_kept_in_a_folder_that_is_given_only(tmp_path: Path) -> None:
    def run(log_dir: Path | None) -> Path:
        folders: list[str] = []
        fit = Fit(as_trainable(trainable(Logs)), None, CONFIG, log_dir=log_dir)
        run_through(fit, lambda epoch: bool(folders.append(str(fit._trainer.log_dir)) or True))  # type: ignore[union-attr, func-returns-value]
        fit.release()
        return Path(folders[0])

    assert sorted(file.name for file in run(tmp_path / "logs").iterdir()) == ["0.txt", "1.txt", "2.txt"]
    assert not run(None).exists()


class LogsInTest(Net):
    def setup(self, stage: str) -> None:
        logger: Any = self.logger
        logger.experiment.add_text("stage", stage)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        super().test_step(batch, batch_idx)
        logger: Any = self.logger
        logger.experiment.add_scalar("by_logger", 1.0)

    def configure_callbacks(self) -> Any:
        return [ModelCheckpoint(), TQDMProgressBar()]


def test_the_logger_is_there_in_the_test_and_where_a_model_is_loaded(tmp_path: Path) -> None:
    best, tested, predicted = scores(trainable(LogsInTest), tmp_path)
    assert best == pytest.approx(tested)
    assert best == pytest.approx(predicted)
    scored = trained_model.score_test_rows(as_trainable(trainable(LogsInTest)), None, CONFIG, tmp_path)
    assert scored == {"test_acc": pytest.approx(best), "by_logger": 1.0}


class LogsItsScore(Net):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        logger: Any = self.logger
        logger.experiment.add_scalar("score", self.accuracy(batch), self.global_step)


def test_a_metric_that_only_the_logger_has_can_be_the_objective() -> None:
    epochs, _ = trained(trainable(LogsItsScore), FitConfig(max_epochs=2, metric="score", mode="max"))
    assert [epoch.score for epoch in epochs] == [epoch.metrics["score"] for epoch in epochs]


class LogsBySelf(Net):
    """Logs as Lightning's pages have it, at steps and epochs."""

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss


def test_what_lightning_logs_itself_adds_no_metric() -> None:
    what = trainable(LogsBySelf)
    what.trainer_options = lambda params: {"log_every_n_steps": 1}
    epochs, fit = trained(what)
    assert fit._trainer is not None
    assert set(epochs[0].metrics) == set(fit._trainer.callback_metrics)


@pytest.mark.parametrize("name", ["__deepcopy__", "_private"])
def test_no_private_name_is_pretended(name: str) -> None:
    assert not hasattr(TrialLogger(None, print), name)
    assert not hasattr(TrialLogger(None, print).experiment, "__array__")
