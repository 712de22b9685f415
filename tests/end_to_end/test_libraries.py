"""A function of each library is swept, paused, killed and resumed: trials train as if they never had been."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeps.kinds.function import FunctionFile
from sweeps.record.record import Record
from sweeps.training.config import FitConfig
from sweeps.training.runs.function_run import FunctionRun
from tests.docs import examples
from tests.end_to_end.test_resume import murderer

TRIALS, EPOCHS = 6, 9


@pytest.mark.long
@pytest.mark.parametrize("name", ["fine_tune", "digits_keras", "digits_xgboost", "digits_lightgbm"])
def test_its_trials_train_as_ones_that_were_never_interrupted(
    name: str, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := examples.missing(name):
        pytest.skip(f"{missing} is not installed")
    project = tmp_path / "project"
    project.mkdir()
    examples.write_libraries(project)
    words = (
        *("--trainable", name, "--num-trials", str(TRIALS), "--max-epochs", str(EPOCHS)),
        *("--no-ray-dashboard", "--max-concurrent", "1", "--checkpoint-epochs", "1", "--seed", "3"),
    )
    killer = murderer(tmp_path / "sweep", words, environment, 12_000)
    killer.cwd = project
    done = killer.run(kills=1)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    record = Record.read(killer.folder)
    assert len(record.trials) == TRIALS
    assert {(trial.status, len(trial.epochs)) for trial in record.trials} == {("pruned", 3), ("finished", 9)}
    assert any((killer.folder / "best" / "checkpoint").iterdir())

    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    module = importlib.import_module(name)
    assert any(trial.pauses for trial in record.trials)
    finished = [trial for trial in record.trials if trial.status == "finished"]
    for trial in finished:
        fit = FitConfig(max_epochs=EPOCHS, metric=module.METRIC, mode=module.MODE, seed=trial.seed, threads=1)
        training = FunctionRun(FunctionFile(name, module), SimpleNamespace(**trial.params), fit)
        scores = [report.score for _ in range(EPOCHS) if (report := training.advance()) is not None]
        training.close()
        assert scores == [epoch.score for epoch in trial.epochs.values()]
    examples.forget()
