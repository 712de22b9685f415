"""Plans of digits_mlp, whose data is always there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweeps.config.sweep_config import SweepConfig


def config(folder: Path, **changes: Any) -> SweepConfig:
    """A sweep of digits_mlp, whose data is always there, on no more than one CPU."""
    base = SweepConfig.from_settings(
        trainable="digits_mlp", name="s", results_dir=str(folder), gpus_per_trial=0
    )
    return base.changed(**changes)
