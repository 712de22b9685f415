"""Programs that call `sweeps.run`: `python script.py`, without a guard of its main part."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps import results
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record

TRAIN = """
import os, time
import torch
import sweeps

STEPS = 5

def step(lr):
    return lr * STEPS

def train(params, trial):
    weight = torch.load(trial.checkpoint / "weight.pt") if trial.checkpoint else torch.zeros(1)
    for epoch in trial.epochs:
        weight += step(params.lr)
        time.sleep(float(os.environ.get("EPOCH_S", "0")))
        trial.report({"val_acc": float(weight)}, save=lambda folder: torch.save(weight, folder / "weight.pt"))

SMALL = {"max_concurrent": 1, "ray_dashboard": False, "metric": "val_acc", "mode": "max"}
"""
CALL = """
sweep = sweeps.run(train, space={"lr": "1e-4..1e-1:log"}, num_trials=3, max_epochs=9, name="first", **SMALL)
print("BEST", sweep.best().number, sweep.trials.num_rows)
"""


def script(folder: Path, source: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python script.py`, typed in the folder."""
    (folder / "script.py").write_text(source)
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def typed(folder: Path, *words: str) -> str:
    """What `sweeps WORDS` prints in the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "sweeps", *words], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script that has run a sweep."""
    folder = tmp_path_factory.mktemp("swept")
    done = script(folder, TRAIN + CALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BEST 1 3" in done.stdout, done.stdout
    return folder


@pytest.mark.long
def test_other_commands_go_on_with_its_sweep(swept: Path) -> None:
    best = yaml.safe_load((swept / "results" / "first" / "best" / "params.yaml").read_text())
    assert best["trainable"] == "python:train"
    assert (swept / "results" / "first" / "best" / "checkpoint" / "weight.pt").is_file()
    typed(swept, "fit", "python:train", "--params", "first", "--name", "again")
    again = yaml.safe_load((swept / "results" / "again" / "best" / "params.yaml").read_text())
    assert (again["score"], again["params"]) == (best["score"], best["params"])
    typed(swept, "fit", "--params", "again", "--max-epochs", "1", "--name", "once more")
    assert "5/5 ended" in typed(swept, "run", "--resume", "first", "--num-trials", "5")
    typed(swept, "report", "first")
    settings = "results/first/sweep.yaml"
    assert "1/1 ended" in typed(swept, "run", "--config", settings, "--name", "anew", "-n", "1")
    assert results.load(swept / "results" / "anew").trials.num_rows == 1


@pytest.mark.long
def test_a_script_resumes_by_name_what_is_the_same(swept: Path) -> None:
    go_on = (
        'sweep = sweeps.run({}, resume="first", num_trials=7, **SMALL)\nprint("ROWS", sweep.trials.num_rows)'
    )
    changed = script(swept, TRAIN.replace("STEPS = 5", "STEPS = 6") + go_on.format("train"))
    assert changed.returncode == 1
    error = changed.stderr[changed.stderr.index("UserError") :]
    assert "STEPS of python:train: its content" in error
    assert "or resume anyway with force=True" in error
    assert "Traceback (most recent call last)" in changed.stderr
    # The space is that of the record.
    same = script(swept, TRAIN + go_on.format("train"))
    assert "ROWS 7" in same.stdout, same.stdout + same.stderr
    alone = script(swept, TRAIN + go_on.format("None").replace("=7", "=8"))
    assert "ROWS 8" in alone.stdout, alone.stdout + alone.stderr


@pytest.mark.long
def test_a_program_with_its_own_ray_runs_several(tmp_path: Path) -> None:
    """The second one is of a trainable of the project, in the same process; the program's own Ray stays."""
    (tmp_path / "loop.py").write_text(
        "from ray import tune\nSPACE = {'lr': tune.uniform(0, 1)}\n"
        "def train(params, trial):\n    next(trial.epochs)\n    trial.report({'val_acc': params.lr})\n"
    )
    own = "import ray\nray.init(num_cpus=1, include_dashboard=False)\n"
    second = """
second = sweeps.run("loop", space={"lr": [0.1, 0.2]}, num_trials=2, max_epochs=1, name="second", **SMALL)
print("SECOND", second.trials.num_rows, ray.get(ray.put("is mine")))
"""
    done = script(tmp_path, own + TRAIN + CALL + second)
    assert "BEST 1 3" in done.stdout, done.stdout + done.stderr
    assert "SECOND 2 is mine" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("ends_by", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_a_program_that_is_interrupted_or_killed_leaves_a_sweep_that_goes_on(
    tmp_path: Path, ends_by: signal.Signals
) -> None:
    (tmp_path / "script.py").write_text((TRAIN + CALL).replace("max_epochs=9", "max_epochs=27"))
    with (tmp_path / "printed.txt").open("w") as printed:
        program = subprocess.Popen(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**os.environ, "EPOCH_S": "0.3"},
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        folder = tmp_path / "results" / "first"
        wait_for(
            lambda: (
                program.poll() is not None
                or ((folder / JOURNAL).is_file() and Record.read(folder).has_epochs)
            )
        )
        assert program.poll() is None, (tmp_path / "printed.txt").read_text()
        program.send_signal(ends_by)
        program.wait(timeout=120)
    # The process of the sweep is another one, and ends with the program: in order.
    wait_for(lambda: str(Record.read(folder).about["outcome"]) == "interrupted")
    wait_for(lambda: "Resume     " in (tmp_path / "printed.txt").read_text())
    text = (tmp_path / "printed.txt").read_text()
    if ends_by == signal.SIGINT:
        assert program.returncode  # Ray, which the pickling imports, makes it 1
        assert "KeyboardInterrupt" in text
        assert "In Python  sweeps.run(..., resume='first') goes on" in text
    trials = [trial for trial in Record.read(folder).trials if trial.epochs]
    assert "3/3 ended" in typed(tmp_path, "run", "--resume", "first")
    ended = Record.read(folder).trials
    assert all({*trial.epochs} <= {*ended[trial.number].epochs} for trial in trials)


def wait_for(condition: Any) -> None:
    ends = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.1)
