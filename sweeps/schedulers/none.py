"""No pruning: every trial trains to the end."""

from __future__ import annotations

from ray.tune.schedulers import TrialScheduler

from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.fifo_scheduler import FifoScheduler

TAKES_OBJECTIVES = True


def build(config: SweepConfig, record: Record) -> TrialScheduler:
    """First in, first out."""
    return FifoScheduler(config, record)


def describe(config: SweepConfig) -> str:
    return f"none: every trial trains {count(config.max_epochs, 'epoch')}"


def ends_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    return False
