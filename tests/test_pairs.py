"""Every pair of searcher and scheduler that the README promises, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps import registry
from sweeps.record import Record
from tests.conftest import Command

PAIRS = [
    (searcher, scheduler)
    for searcher in registry.choices("searcher")
    for scheduler in registry.find("searcher", searcher).SCHEDULERS
]
ENDS = {"none": {9}, "asha": {3, 9}, "hyperband": {3, 9}, "bohb": {3, 9}}


@pytest.mark.slow
@pytest.mark.parametrize(("searcher", "scheduler"), PAIRS)
def test_a_pair_ends_every_trial_at_a_rung_on_warm_processes(
    searcher: str, scheduler: str, sweep: Command, tmp_path: Path
) -> None:
    space = "tests.faulty.slopes_grid" if searcher == "grid" else "tests.faulty.slopes"
    done = sweep(
        *("--trainable", "tests.faulty.toy", "--search-space", space, "--max-epochs", "9"),
        *("--searcher", searcher, "--scheduler", scheduler, "--num-trials", "10", "--no-dashboard"),
        *("--name", "s", "--results-dir", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    assert len(record.trials) == 10
    assert {len(trial.epochs) for trial in record.trials} == ENDS[scheduler]
    assert len({trial.place["pid"] for trial in record.trials}) <= 3, "two at a time, and one to spare"
    best = record.best()
    assert best is not None
    assert len(best.epochs) == 9
