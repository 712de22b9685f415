"""A training by a function: its reports, its checkpoints, its ends."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.common.errors import CannotTrain, MetricNotLogged
from sweeps.kinds.function import FunctionFile
from sweeps.training.config import FitConfig
from sweeps.training.report import Progress, Report
from sweeps.training.runs.function_run import FunctionRun
from tests.faulty import by_function

PARAMS = SimpleNamespace(lr=0.1, size=2)


def run(train: Any = by_function.train, checkpoint: Path | None = None, epochs: int = 6) -> FunctionRun:
    module = SimpleNamespace(__name__="mine", __file__=__file__, train=train, SPACE={})
    config = FitConfig(max_epochs=epochs, metric="val_score", mode="max", seed=3)
    return FunctionRun(FunctionFile("mine", module), PARAMS, config, checkpoint, number=5)


def reports(training: FunctionRun, most: int = 100) -> list[Report]:
    found = []
    while len(found) < most and (report := training.advance()) is not None:
        found.append(report)
    return found


def test_a_resumed_one_trains_as_one_that_was_never_interrupted(tmp_path: Path) -> None:
    whole = [report.score for report in reports(run())]
    training = run()
    first = [report.score for report in reports(training, 2)]
    training.save(tmp_path)
    training.close()
    resumed = reports(run(checkpoint=tmp_path))
    assert [report.epoch for report in resumed] == [3, 4, 5, 6]
    assert first + [report.score for report in resumed] == whole
    assert Progress.read(tmp_path).score == max(first)


def test_it_is_stopped_where_it_has_reported_and_cleans_up() -> None:
    seen: list[object] = []

    def train(params: Any, trial: Any) -> None:
        try:
            for epoch in trial.epochs:
                seen.append((trial.number, trial.seed, trial.max_epochs, epoch))
                try:
                    trial.report({"val_score": 1})
                except Exception:
                    seen.append("caught")
        finally:
            seen.append("cleaned up")

    training = run(train)
    reports(training, 2)
    assert not training.can_be_saved
    training.close()
    assert seen == [(5, 3, 6, 1), (5, 3, 6, 2), "cleaned up"]


def test_it_ends_by_itself() -> None:
    assert len(reports(run(lambda params, trial: trial.report({"val_score": 1})))) == 1


def test_an_error_of_the_function_is_its_own() -> None:
    def train(params: Any, trial: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(train).advance()


@pytest.mark.parametrize(
    ("metrics", "kind", "expected"),
    [
        ({"score": 1}, MetricNotLogged, "metric 'val_score' was not logged; logged: score. Did you mean"),
        ({"val_score": "low"}, CannotTrain, "trial.report: val_score must be a number, not 'low'"),
        ({"val_score": None}, CannotTrain, "trial.report: val_score must be a number, not None"),
        ({"val_score": [0.5]}, CannotTrain, r"trial.report: val_score must be a number, not \[0.5\]"),
        ({"val_score": torch.zeros(2)}, CannotTrain, "trial.report: val_score must be a number, not tensor"),
        ({"val_score": torch.tensor(1 + 2j)}, CannotTrain, "val_score must be a number, not tensor"),
        ({"val_score": np.complex64(1j)}, CannotTrain, "trial.report: val_score must be a number, not .*1j"),
        ([1.0], CannotTrain, r"trial.report: metrics must be a dict such as .*, not \[1.0\]"),
    ],
)
def test_a_report_that_is_none(metrics: object, kind: type[Exception], expected: str) -> None:
    with pytest.raises(kind, match=expected):
        run(lambda params, trial: trial.report(metrics)).advance()


def test_a_loss_with_its_gradient_is_a_number_without_a_warning() -> None:
    was, loss = torch.is_warn_always_enabled(), torch.tensor(0.5, requires_grad=True)
    torch.set_warn_always(True)  # by itself PyTorch warns once in a process
    try:
        with warnings.catch_warnings(action="error"):
            report = run(lambda params, trial: trial.report({"val_score": loss})).advance()
    finally:
        torch.set_warn_always(was)
    assert report is not None
    assert report.metrics == {"val_score": 0.5}


def test_a_mean_of_no_value_is_no_number() -> None:
    report = run(lambda params, trial: trial.report({"val_score": 1, "val_loss": np.ma.masked})).advance()
    assert report is not None
    assert math.isnan(report.metrics["val_loss"])


class LostOnTheGpu:
    """As a tensor of one number whose kernel has failed, which shows when the number is read."""

    shape = ()

    def __float__(self) -> float:
        raise RuntimeError("CUDA error: device-side assert triggered")


def test_a_fault_of_the_gpu_is_told_as_such_where_a_number_is_reported() -> None:
    with pytest.raises(RuntimeError, match="device-side assert"):
        run(lambda params, trial: trial.report({"val_score": LostOnTheGpu()})).advance()


def test_a_function_without_a_report() -> None:
    with pytest.raises(CannotTrain, match=r"mine.train has ended without a report: call trial.report"):
        run(lambda params, trial: None).advance()


def test_an_epoch_without_a_report_is_named() -> None:
    def train(params: Any, trial: Any) -> None:
        for epoch in trial.epochs:
            if epoch % 2:
                trial.report({"val_score": 1})

    training = run(train)
    assert training.advance() is not None
    with pytest.raises(CannotTrain, match=r"epoch 2 of trial\.epochs had no report"):
        training.advance()


def test_an_epoch_with_two_reports_is_named() -> None:
    def train(params: Any, trial: Any) -> None:
        for _ in trial.epochs:
            trial.report({"val_score": 1})
            trial.report({"val_score": 2})

    training = run(train)
    assert training.advance() is not None
    assert training.advance() is not None
    with pytest.raises(CannotTrain, match=r"epoch 1 of trial\.epochs had 2 reports: call trial.report once"):
        training.advance()


def test_a_save_that_is_no_function_is_refused_at_the_first_report() -> None:
    with pytest.raises(CannotTrain, match=r"save must be a function of a folder, not \{'state': 1\}"):
        run(lambda params, trial: trial.report({"val_score": 1}, {"state": 1})).advance()


def test_its_best_folder_has_what_trains_it_again_and_its_last_state(tmp_path: Path) -> None:
    training = run()
    reports(training)
    training.close()
    assert training.keep_best(tmp_path / "best", "params: {}\n")
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["best/checkpoint/inside/state.pt", "best/params.yaml"]


def test_it_keeps_the_newest_checkpoint_where_the_last_report_had_no_save(tmp_path: Path) -> None:
    def train(params: Any, trial: Any) -> None:
        for epoch in trial.epochs:
            save = (lambda folder: (folder / "state").write_text("2")) if epoch == 2 else None
            trial.report({"val_score": epoch}, save=save)

    training = run(train, epochs=3)
    reports(training, 2)
    (tmp_path / "epoch_0002").mkdir()
    training.save(tmp_path / "epoch_0002")
    reports(training)
    assert not training.can_be_saved
    training.keep_best(tmp_path / "best", "params: {}\n", tmp_path / "epoch_0002")
    assert (tmp_path / "best" / "checkpoint" / "state").read_text() == "2"


def test_it_ends_with_its_epochs_and_runs_the_code_behind_its_loop() -> None:
    seen: list[object] = []

    def train(params: Any, trial: Any) -> None:
        for epoch in range(1, 30):
            seen.append(epoch)
            if epoch == 4:
                seen.append("behind")
            trial.report({"val_score": epoch})

    closed, ended = run(train, epochs=3), run(train, epochs=3)
    assert len(reports(closed, 3)) == 3
    closed.close()
    assert len(reports(ended)) == 3
    assert seen == [1, 2, 3, 4, "behind"] * 2


def by_loop(seen: list[object], is_saved: bool = True) -> Any:
    """A function of which only its own loop can save."""

    def train(params: Any, trial: Any) -> None:
        asked: list[Path] = []

        def save(folder: Path) -> None:
            asked.append(folder)
            if not trial.run.go_on_to_save():
                (folder / "late").touch()

        for epoch in trial.epochs:
            trial.report({"val_score": epoch}, save=save)
            seen.append(epoch)
            if asked and is_saved:
                (asked.pop() / "state").write_text(str(epoch))
                trial.run.has_saved()
                seen.append("on")

    return train


def test_the_loop_of_a_function_saves_and_goes_on_only_when_it_may(tmp_path: Path) -> None:
    seen: list[object] = []
    training = run(by_loop(seen))
    reports(training, 2)
    training.save(tmp_path)
    assert (tmp_path / "checkpoint" / "state").read_text() == "2"
    assert seen == [1, 2]
    reports(training, 1)
    assert seen == [1, 2, "on"]
    training.close()
    assert seen == [1, 2, "on"]
    assert training.keep_best(tmp_path / "best", "params: {}\n")
    assert (tmp_path / "best" / "checkpoint" / "late").exists()


def test_a_loop_that_saves_nothing_is_told(tmp_path: Path) -> None:
    training = run(by_loop([], is_saved=False))
    reports(training, 1)
    with pytest.raises(CannotTrain, match=r"mine.train was asked for a checkpoint, and has written none"):
        training.save(tmp_path)


def test_a_report_of_another_thread_is_refused() -> None:
    def train(params: Any, trial: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(trial.report, {"val_score": 1}).result()

    with pytest.raises(CannotTrain, match="call it in the thread that runs train"):
        run(train).advance()
