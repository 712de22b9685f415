"""A command is swept, killed, resumed, refined and trained again as a LightningModule is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from sweeps.record.record import Record
from tests.conftest import ROOT, Command
from tests.end_to_end.test_resume import check_same_when_killed

PROGRAM = f"{sys.executable} tests/faulty/by_command.py {{lr}} {{size}} {{seed}} {{max_epochs}}"
SWEEP = (
    *("--command", f"{PROGRAM} {{checkpoint_dir}}", "--ranges", "lr=1e-3..1.0:log", "size=1,2,4"),
    *("--metric", "val_score:max", "--num-trials", "9", "--max-epochs", "9"),
    *("--no-ray-dashboard", "--max-concurrent", "1", "--seed", "3"),
)
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def sweeps(environment: dict[str, str]) -> Run:
    """A command, in the folder of the repository or another one."""

    def run(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.long
def test_one_that_was_killed_decides_and_ends_as_one_that_was_not(
    sweep: Command, sweeps: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    said = check_same_when_killed(sweep, SWEEP, {**environment, "EPOCH_S": "0.2"}, tmp_path)
    assert "halving: 9 trials to epoch 3" in said
    assert not [each for each in psutil.process_iter(["cmdline"]) if "by_command.py" in str(each.info)]

    best = tmp_path / "whole" / "best"
    assert (best / "checkpoint" / "inside" / "state.json").is_file()
    line = (best / "command.sh").read_text().splitlines()[-1]
    (tmp_path / "checkpoint").mkdir()
    by_hand = subprocess.run(
        ["bash", "-c", line.replace("tests/faulty", f"{ROOT}/tests/faulty")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    found = yaml.safe_load((best / "params.yaml").read_text())
    assert f"val_score={found['score']}" in by_hand.stdout
    command = next(line for line in said.splitlines() if line.startswith("Retrain"))
    words = command.removeprefix("Retrain").split("'")
    again = sweeps(
        *("sweeps.fit", words[1], *words[2].split(), "--name", "again", "--results-dir", str(tmp_path))
    )
    assert again.returncode == 0, again.stdout + again.stderr
    second = yaml.safe_load((tmp_path / "again" / "best" / "params.yaml").read_text())
    assert (second["score"], second["epoch"]) == (found["score"], found["epoch"])
    refined = sweep("--refine", str(tmp_path / "whole"), "--num-trials", "2", "--dry-run")
    assert refined.returncode == 0, refined.stdout + refined.stderr
    assert "whole-refined" in refined.stdout


@pytest.mark.long
def test_a_script_of_a_shell_with_a_second_objective_and_a_constraint(sweeps: Run, tmp_path: Path) -> None:
    """It saves nothing: its trials are never paused, and one that ends without a report ends the sweep."""
    (tmp_path / "train.sh").write_text(
        'for epoch in $(seq "$2"); do echo "ms=$((epoch * $1)) size=$1"; echo "acc=0.$1$epoch"; done\n'
    )
    words = (
        *("sweeps.run", "--command", "bash train.sh {width} {max_epochs}", "--ranges", "width=1..4"),
        *("--max-epochs", "3", "-n", "4", "--no-ray-dashboard", "--constraint", "size<=3"),
    )
    done = sweeps(*words, "--metric", "acc:max", "ms:min", "--name", "two", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the command has no {checkpoint_dir}" in " ".join(done.stdout.split())
    best = tmp_path / "results" / "two" / "best"
    assert not (best / "checkpoint").exists()
    assert (best / "command.sh").read_text().splitlines()[-1].startswith("bash train.sh ")
    wrong = sweeps(*words[:-2], "--metric", "val_acc:max", "--name", "typo", folder=tmp_path)
    assert wrong.returncode == 2, wrong.stdout + wrong.stderr
    assert "metric 'val_acc' was not logged; logged: acc, ms, size. Did you mean 'acc'?" in wrong.stdout
    assert len(Record.read(tmp_path / "results" / "typo").trials) <= 2


@pytest.mark.long
def test_one_that_hangs_is_ended_and_the_others_are_trained(sweeps: Run, tmp_path: Path) -> None:
    """It ignores SIGTERM, and has started another process."""
    (tmp_path / "train.sh").write_text(
        'trap "" TERM\necho "acc=0.$1"\nif [ "$1" = 2 ]; then sleep 654321 & wait; fi\necho "acc=0.$1"\n'
    )
    words = (
        *("sweeps.run", "--command", "bash train.sh {width}", "--ranges", "width=1,2,3"),
        *("--searcher", "grid", "--metric", "acc:max", "--max-epochs", "2", "--no-ray-dashboard"),
        *("--epoch-timeout-minutes", "0.05", "--stop-grace", "1", "--max-failures", "0", "--keep-going"),
        *("--name", "hangs"),
    )
    done = sweeps(*words, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = Record.read(tmp_path / "results" / "hangs").trials
    by_width = {trial.params["width"]: trial for trial in trials}
    assert [by_width[width].status for width in (1, 2, 3)] == ["finished", "failed", "finished"]
    assert "--epoch-timeout-minutes" in by_width[2].reason
    assert not [each for each in psutil.process_iter(["cmdline"]) if "654321" in str(each.info)]
