"""Plans of a sweep with two models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan

TOYS = ["tests.faulty.toy", "tests.faulty.steps"]
TOY, STEPS = TOYS
SPACES = ["tests.faulty.branches", "tests.faulty.speeds"]
GRIDS = ["tests.faulty.slopes_grid", "tests.faulty.small_grid"]


def config(folder: Path, **changes: Any) -> SweepConfig:
    base = SweepConfig.from_settings(
        name="s",
        trainable=TOYS,
        search_space=SPACES,
        results_dir=str(folder),
        gpus_per_trial=0,
        min_free_gb=0.0,
        max_epochs=1,
        grace_epochs=1,
    )
    return base.changed(**changes)


def planned(folder: Path, searcher: str = "random", **changes: Any) -> Plan:
    """A plan that the searcher takes: grids for those that take no other space."""
    takes = plugins.find("searcher", searcher).TAKES
    spaces = SPACES if "conditional" in takes else GRIDS
    return make_plan(config(folder, **{"searcher": searcher, "search_space": spaces, **changes}))
