"""A sweep without pruning."""

from __future__ import annotations

from pathlib import Path

from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from tests.sweeps.schedulers.play import decide, record_of


def test_without_pruning_the_worst_trial_goes_on(tmp_path: Path) -> None:
    record = record_of(tmp_path, "max", 9)
    scheduler = plugins.find("scheduler", "none").build(SweepConfig(), record)
    decisions = {decide(scheduler, record, number, 3, -float(number)) for number in range(9)}
    assert decisions == {"CONTINUE"}
