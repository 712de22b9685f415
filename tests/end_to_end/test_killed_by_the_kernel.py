"""The process of a trial takes more main memory than there is, and the kernel kills it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.conftest import Command
from tests.support import memory_groups


@pytest.mark.slow
def test_it_is_told_so_and_the_trial_goes_on(
    sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    with memory_groups.made() as group:
        environment["TOY_CGROUP"] = str(group)
        done = sweep(
            *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes"),
            *("--params", "fault=exhausts", "--searcher", "random", "--scheduler", "none"),
            *("--num-trials", "1", "--max-epochs", "3", "--checkpoint-epochs", "1"),
            *("--no-preflight", "--no-ray-dashboard", "--name", "s", "--results-dir", str(tmp_path)),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    told = (
        f"Trial 0 lost its process on {platform.node()}: killed by the kernel: out of memory; it is requeued"
    )
    assert told in done.stdout
    (trial,) = Record.read(tmp_path / "s").trials
    assert (trial.status, list(trial.epochs)) == ("finished", [1, 2, 3])
