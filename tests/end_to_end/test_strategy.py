"""Sweeps whose trials keep their state in shards: pruned, paused, and resumed after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sweeps.record.record import Record
from tests.conftest import Command

ZERO = (
    *("--trainable", "digits_mlp", "--strategy", "deepspeed_stage_2", "--precision", "bf16-mixed"),
    *(
        "--num-trials",
        "6",
        "--max-epochs",
        "9",
        "--max-concurrent",
        "1",
        "--no-ray-dashboard",
        "--no-preflight",
    ),
)
PAIRS = {"asha": "tpe", "bohb": "bohb"}


def check(folder: Path) -> Record:
    record = Record.read(folder)
    assert [trial.reason for trial in record.trials if trial.status == "failed"] == []
    for trial in record.trials:
        assert list(trial.epochs) == list(range(1, len(trial.epochs) + 1))
        assert len(trial.epochs) in (3, 9)
    assert sum(len(trial.epochs) == 9 for trial in record.trials) >= 1
    weights = torch.load(folder / "best" / "weights.pt", weights_only=True)
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    return record


@pytest.mark.long
@pytest.mark.parametrize("scheduler", PAIRS)
def test_trials_in_shards_are_pruned_and_paused_in_warm_processes(
    scheduler: str, sweep: Command, tmp_path: Path
) -> None:
    pair = ("--scheduler", scheduler, "--searcher", PAIRS[scheduler])
    done = sweep(*ZERO, *pair, "--name", "s", "--results-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    record = check(tmp_path / "s")
    assert {len(trial.epochs) for trial in record.trials} == {3, 9}
    assert len({trial.place["pid"] for trial in record.trials}) <= 2
