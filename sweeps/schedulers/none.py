"""No pruning: every trial trains to the end."""

from __future__ import annotations

from sweeps.common.formatting import count
from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.search.record_scheduler import Decision, PruningMethod


class Scheduler(PruningMethod):
    """First in, first out."""

    TAKES_OBJECTIVES = True
    TAKES_MORE_EPOCHS = True

    @classmethod
    def describe(cls, config: SweepConfig) -> str:
        return f"none: every trial trains {count(config.max_epochs, 'epoch')}"

    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> Decision:
        return "CONTINUE"
