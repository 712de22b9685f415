"""Every pair of searcher and scheduler that the README promises, for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.config import plugins
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from tests.conftest import ROOT, Command
from tests.support.killing import check_whole

PAIRS = [
    (searcher, scheduler)
    for searcher in plugins.choices("searcher")
    for scheduler in plugins.find("searcher", searcher).SCHEDULERS
]
ENDS = {"none": {27}, "halving": {3, 9, 27}, "hyperband": {3, 9, 27}, "bohb": {3, 9, 27}}


@pytest.mark.long
@pytest.mark.parametrize(("searcher", "scheduler"), PAIRS)
def test_a_pair_ends_every_trial_at_a_rung_on_warm_processes(
    searcher: str, scheduler: str, sweep: Command, tmp_path: Path
) -> None:
    space = "tests.faulty.slopes_grid" if searcher == "grid" else "tests.faulty.slopes"
    done = sweep(
        "--no-baseline",
        *("--trainable", "tests.faulty.toy", "--search-space", space, "--max-epochs", "27"),
        *(
            "--searcher",
            searcher,
            "--scheduler",
            scheduler,
            "--num-trials",
            "10",
            "--no-ray-dashboard",
            "--no-preflight",
        ),
        *("--name", "s", "--results-dir", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    assert len(record.trials) == 10
    ends = {len(trial.epochs) for trial in record.trials}
    if scheduler == "asha":  # who goes on depends on who came before: a grid that rises prunes nothing
        check_whole(record, 10, [3, 9], max_epochs=27)
    else:
        assert ends == ENDS[scheduler]
    assert len({trial.place["pid"] for trial in record.trials}) <= 3, "two at a time, and one to spare"
    best = record.best()
    assert best is not None
    assert len(best.epochs) == 27


@pytest.mark.long
def test_the_process_that_paused_trials_left_may_die_while_it_is_idle(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Two of three wait, in no process; the one that they left is killed before the third arrives."""
    arguments = (
        "--no-baseline",
        *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
        *("--scheduler", "hyperband", "--num-trials", "3", "--max-epochs", "9", "--max-concurrent", "2"),
        *(
            "--params",
            "epoch_s=1.5",
            "--no-ray-dashboard",
            "--no-preflight",
            "--name",
            "s",
            "--results-dir",
            str(tmp_path),
        ),
    )
    sweep = subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", *arguments], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    idle: set[int] = set()
    while not idle:
        assert sweep.poll() is None, "it ended before two were waiting"
        time.sleep(0.1)
        if not (tmp_path / "s" / JOURNAL).is_file():
            continue
        trials = Record.read(tmp_path / "s").trials
        if [len(trial.epochs) for trial in trials[:2]] == [3, 3] and len(trials) == 3 and trials[2].epochs:
            idle = {trial.place["pid"] for trial in trials} - {trials[2].place["pid"]}
    os.kill(idle.pop(), signal.SIGKILL)
    assert sweep.wait(timeout=120) == 0
    record = Record.read(tmp_path / "s")
    assert sorted(trial.status for trial in record.trials) == ["finished", "pruned", "pruned"]
    best = max(record.trials, key=lambda trial: float(trial.params["slope"]))
    assert (best.status, len(best.epochs)) == ("finished", 9)


@pytest.mark.long
def test_a_process_that_dies_while_it_saves_a_trial_that_pauses_loses_nothing(
    sweep: Command, attempts: Path, tmp_path: Path
) -> None:
    """The first save of all is that of trial 0, which is to wait at its rung."""
    done = sweep(
        "--no-baseline",
        *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
        *("--scheduler", "hyperband", "--num-trials", "5", "--max-epochs", "9", "--max-concurrent", "1"),
        *(
            "--params",
            "fault=killed_in_save",
            "--no-ray-dashboard",
            "--no-preflight",
            "--name",
            "s",
            "--results-dir",
            str(tmp_path),
        ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    check_whole(record, 5, [3], max_epochs=9, brackets=True)
    first_process = (attempts / "killed_in_save").read_text().split()[0]
    assert first_process not in {str(trial.place["pid"]) for trial in record.trials}
    for trial in record.trials:
        assert [row.score for row in trial.epochs.values()] == pytest.approx(
            [float(trial.params["slope"]) * epoch for epoch in trial.epochs]
        )
