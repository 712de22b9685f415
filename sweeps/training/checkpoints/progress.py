"""How far the training of a checkpoint has come: what is known of it without its model."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import count
from sweeps.training.report import Report

ABOUT_FILE = "about.json"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training has come, and by which workers."""

    epochs: int = 0
    """That have ended."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the last one."""
    score: float = math.nan
    """Of the best one."""
    passes: int = 0
    """Over the training data that have ended, where an epoch is a part of one."""
    pass_batches: int = 0
    """That were read of it since."""
    schedule_from: int = 0
    """Epochs behind which the schedules of its learning rate were made anew; 0: they were not."""
    has_ended: bool = False
    """Whether the training has ended by itself, for example by EarlyStopping."""
    strategy: str = "single"
    workers: int = 1

    @classmethod
    def read(cls, checkpoint: Path | None) -> Progress:
        """Of a checkpoint; of a training that begins where there is none."""
        return cls() if checkpoint is None else cls(**json.loads((checkpoint / ABOUT_FILE).read_text()))

    def write(self, folder: Path) -> None:
        """Write it into the folder of a checkpoint."""
        (folder / ABOUT_FILE).write_text(json.dumps(dataclasses.asdict(self)))

    def last_report(self, metric: str) -> Report | None:
        """The last epoch as it was reported, without its time; None before any."""
        return Report.from_metrics(self.epochs, metric, self.metrics) if self.epochs else None

    def refuse_other_workers(self, strategy: str, workers: int) -> None:
        """Refuse to continue a sharded checkpoint by another strategy, or by another number of workers.

        Raises:
            CannotTrain: they differ, and one of them is sharded.
        """
        is_sharded = any(name.startswith(("fsdp", "deepspeed")) for name in (self.strategy, strategy))
        if is_sharded and (self.strategy, self.workers) != (strategy, workers):
            raise CannotTrain(
                f"the checkpoint is of strategy {self.strategy} with {count(self.workers, 'worker')}, and "
                f"strategy {strategy} with {count(workers, 'worker')} can't read it: sharded checkpoints are "
                "read only by the strategy and the number of workers that wrote them"
            )
