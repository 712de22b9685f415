"""The examples of libraries.md: each goes on as if it had never been stopped, in the loop of its library."""

from __future__ import annotations

import errno
import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sweeps.common.errors import MetricNotLogged
from sweeps.kinds.function import FunctionFile
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.function_run import FunctionRun
from tests.docs import examples

pytestmark = pytest.mark.slow
PARAMS: dict[str, dict[str, Any]] = {
    "fine_tune": {"lr": 1e-3, "layers": 1},
    "digits_keras": {"lr": 1e-3, "hidden": 32},
    "digits_xgboost": {"eta": 0.3, "max_depth": 3},
    "digits_lightgbm": {"learning_rate": 0.1, "num_leaves": 8},
    "digits_bagging": {"learning_rate": 0.1, "bagging_fraction": 0.6},
    "digits_sklearn": {"learning_rate_init": 1e-2, "hidden": 16},
}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """An example of libraries.md by its name, imported; skipped where its library is not installed."""
    examples.write_libraries(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def find(name: str) -> ModuleType:
        if missing := examples.missing(name):
            pytest.skip(f"{missing} is not installed")
        return importlib.import_module(name)

    yield find
    examples.forget()


def begun(module: ModuleType, checkpoint: Path | None = None, epochs: int = 4) -> FunctionRun:
    config = FitConfig(max_epochs=epochs, metric=module.METRIC, mode=module.MODE, seed=3)
    params = SimpleNamespace(**PARAMS[module.__name__])
    return FunctionRun(FunctionFile(module.__name__, module), params, config, checkpoint)


def reports(training: FunctionRun, most: int = 100) -> list[Report]:
    found = []
    while len(found) < most and (report := training.advance()) is not None:
        found.append(report)
    return found


@pytest.mark.parametrize("name", PARAMS)
def test_a_resumed_one_trains_as_one_that_was_never_interrupted(
    name: str, example: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    check_resumed(example(name), tmp_path)


@pytest.mark.parametrize("on_start", [False, True])
def test_a_trainer_that_evaluates_inside_of_an_epoch_goes_on_there(
    on_start: bool, example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = example("fine_tune")  # of 24 steps in an epoch
    steps = {"eval_strategy": "steps", "eval_steps": 10, "max_steps": 40, "eval_on_start": on_start}
    change_arguments(module, monkeypatch, **steps)
    check_resumed(module, tmp_path)


def test_a_trainer_loads_its_best_model_where_the_last_checkpoint_was_that_of_the_sweep(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = example("fine_tune")
    own_folder = {"save_strategy": "epoch", "save_total_limit": 1, "output_dir": str(tmp_path / "own")}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss"}
    change_arguments(module, monkeypatch, **own_folder, **best)
    training = begun(module, epochs=2)
    assert len(reports(training, 2)) == 2
    (tmp_path / "saved").mkdir()
    training.save(tmp_path / "saved")
    (saved,) = (tmp_path / "saved").glob("*/checkpoint-*")
    own = str(tmp_path / "own" / saved.name)
    assert json.loads((saved / "trainer_state.json").read_text())["best_model_checkpoint"] == own
    shutil.rmtree(tmp_path / "saved")  # a newer one takes its place
    training.close()  # the loop ends, with the best model
    assert Path(own, "model.safetensors").is_file()


def test_of_the_own_checkpoints_as_many_stay_as_the_trainer_keeps(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = example("fine_tune")
    own_folder = {"save_strategy": "epoch", "save_total_limit": 2, "output_dir": str(tmp_path / "own")}
    change_arguments(module, monkeypatch, **own_folder)
    training = begun(module)
    for number in range(1, 4):
        assert len(reports(training, 1)) == 1
        (tmp_path / str(number)).mkdir()
        training.save(tmp_path / str(number))
    newest = [next((tmp_path / number).glob("*/checkpoint-*")).name for number in ("2", "3")]
    assert {each.name for each in (tmp_path / "own").iterdir()} == {*newest}
    training.release()


def test_the_best_own_checkpoint_stays_whatever_way_its_folder_is_written(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = example("fine_tune")
    own_folder = {"save_strategy": "epoch", "save_total_limit": 1, "output_dir": "./own"}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    change_arguments(module, monkeypatch, **own_folder, **best)
    training = begun(module, epochs=2)
    first, second = (report.metrics["eval_loss"] for report in reports(training, 2))
    assert first > second, "the first one is the best"
    assert len(own := [*(tmp_path / "own").iterdir()]) == 1, "the Trainer has saved by itself"
    (tmp_path / "saved").mkdir()
    training.save(tmp_path / "saved")
    assert own[0].is_dir()
    training.release()


def change_arguments(module: ModuleType, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let an example give other arguments to its Trainer."""
    arguments = module.TrainingArguments
    monkeypatch.setattr(module, "TrainingArguments", lambda **settings: arguments(**(settings | changes)))


def check_resumed(module: ModuleType, folder: Path) -> None:
    """Save a training after the second of four reports, and go on with it and with what was saved."""
    whole = [report.metrics for report in reports(begun(module))]
    assert len(whole) == 4
    training = begun(module)
    first = reports(training, 2)
    (folder / "saved").mkdir()
    training.save(folder / "saved")
    third = reports(training, 1)
    training.close()
    resumed = reports(begun(module, folder / "saved"))
    assert [report.epoch for report in resumed] == [3, 4]
    assert [report.metrics for report in first + resumed] == whole
    assert third[0].metrics == whole[2], "to save has changed what follows"


def test_the_trainer_reports_no_evaluation_outside_of_its_training(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("fine_tune")

    class Evaluating(module.Trainer):  # type: ignore[misc, name-defined]
        def train(self, **settings: Any) -> Any:
            self.evaluate()
            self.args.eval_on_start = True
            super().train(**settings)
            self.evaluate()

    monkeypatch.setattr(module, "Trainer", Evaluating)
    assert [report.epoch for report in reports(begun(module, epochs=2))] == [1, 2]


def test_the_best_folder_has_weights_of_a_trainer_that_has_ended(
    example: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    module = example("fine_tune")
    training = begun(module, epochs=1)
    reports(training)
    training.close()
    assert training.keep_best(tmp_path / "best", "params: {}\n")
    assert module.ViTForImageClassification.from_pretrained(tmp_path / "best" / "checkpoint")


def test_a_trainer_that_can_not_save_says_why(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = example("fine_tune")
    training = begun(module)
    reports(training, 1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.ViTForImageClassification, "save_pretrained", full)
    with pytest.raises(OSError, match="No space left"):
        training.save(tmp_path)
    assert not training.can_go_on
    training.close()


def test_a_trainer_that_asks_no_callback_is_refused(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("fine_tune")
    arguments = module.TrainingArguments

    def best(**settings: Any) -> Any:
        better = {"save_strategy": "best", "metric_for_best_model": "accuracy"}
        return arguments(**{**settings, **better})

    monkeypatch.setattr(module, "TrainingArguments", best)
    with pytest.raises(ValueError, match="save_strategy='best' saves no trial: give save_strategy='no'"):
        begun(module).advance()


def test_scores_of_several_validation_sets_are_one_report(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("fine_tune")
    trainer = module.Trainer

    def with_two_sets(*given: Any, eval_dataset: Any, **more: Any) -> Any:
        return trainer(*given, eval_dataset={"near": eval_dataset[:99], "far": eval_dataset[99:]}, **more)

    monkeypatch.setattr(module, "Trainer", with_two_sets)
    monkeypatch.setattr(module, "METRIC", "eval_far_accuracy")
    found = reports(begun(module))
    assert [each.epoch for each in found] == [1, 2, 3, 4]
    assert {"eval_near_accuracy", "eval_far_accuracy"} <= found[0].metrics.keys()
    monkeypatch.setattr(module, "METRIC", "eval_accuracy")
    with pytest.raises(MetricNotLogged, match="eval_near_accuracy"):
        reports(begun(module))
