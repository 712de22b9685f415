"""Records written by hand."""

from __future__ import annotations

from pathlib import Path

from optuna.distributions import FloatDistribution

from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose


def new_record(folder: Path, mode: str = "max", trials: int = 0) -> Record:
    record = Record.create(folder, "s", mode, {"metric": "m", "fixed": {"width": 8}})
    for number in range(trials):
        propose(record, {"lr": 0.1 * (number + 1)}, {"lr": FloatDistribution(0, 10)}, seed=number)
    return record


def scored(folder: Path, mode: str, scores: list[list[float]], status: Status = "finished") -> Record:
    """A record whose trials reported these scores, an epoch each, and ended."""
    record = new_record(folder, mode, len(scores))
    for number, of_trial in enumerate(scores):
        for epoch, score in enumerate(of_trial, start=1):
            record.report(number, epoch, score, {}, 1.0)
        record.end(number, status)
    return record
