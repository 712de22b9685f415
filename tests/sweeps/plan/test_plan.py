"""The checked plan: how many epochs it takes, and who waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.plan import Plan
from sweeps.schedulers import asha, hyperband, none
from sweeps.search.record_scheduler import PruningMethod
from sweeps.searchers import random
from tests.conftest import propose
from tests.sweeps.schedulers.play import new_record


def plan_of(folder: Path, scheduler: type[PruningMethod], **settings: Any) -> Plan:
    no_space: Any = None
    return Plan(SweepConfig.from_settings(**settings), (), random.Searcher, scheduler, no_space, folder)


@pytest.mark.parametrize("scheduler", [none.Scheduler, asha.Scheduler])
def test_nobody_waits_where_the_scheduler_pauses_none(scheduler: type[PruningMethod], tmp_path: Path) -> None:
    plan = plan_of(tmp_path, scheduler, max_epochs=9, grace_epochs=1)
    record = new_record(tmp_path, plan.config)
    trial = propose(record, {"lr": 0.1})
    record.report(0, 1, 0.5, {}, 1.0)
    assert not plan.waits(record, trial)


def test_a_trial_at_a_rung_waits_for_its_bracket_and_a_rerun_for_nobody(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path, hyperband.Scheduler, num_trials=9, max_epochs=9, grace_epochs=1, reduction_factor=3
    )
    record = new_record(tmp_path, plan.config)
    trial = propose(record, {"lr": 0.1})
    assert not plan.waits(record, trial)
    record.report(0, 1, 0.5, {}, 1.0)
    assert plan.waits(record, trial)
    again = record.begin(trial.point, trial.optuna, 7, confirms=0)
    record.report(again.number, 1, 0.5, {}, 1.0)
    assert not plan.waits(record, again)
