"""Records of sweeps with several objectives, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optuna.distributions import FloatDistribution

from sweeps.record.record import Record
from sweeps.record.trials import Status, TrialRow
from tests.conftest import propose

OBJECTIVES = ("acc:max", "size_m:min")
FRONT = ((0.90, 5.0), (0.85, 2.0), (0.60, 1.0))
"""Accuracy and size of three trials of which none is better in both; the second one is the knee."""


def new(folder: Path, trials: int = 0, objectives: Sequence[str] = OBJECTIVES) -> Record:
    folder.mkdir(exist_ok=True)
    about = {"metric": objectives[0].partition(":")[0], "objectives": list(objectives), "sweep": "s"}
    record = Record.create(folder, "s", "max", {**about, "trainable": "net", "max_epochs": 2})
    for number in range(trials):
        begin(record, number)
    return record


def begin(record: Record, number: int) -> TrialRow:
    return propose(record, {"lr": 0.1 * (number + 1)}, {"lr": FloatDistribution(0, 1000)}, trainable="net")


def report(record: Record, number: int, epoch: int, values: Sequence[float]) -> None:
    metrics = dict(zip(record.objectives.metrics, values, strict=True))
    record.report(number, epoch, values[0], metrics, 1.0)


def weighed(
    folder: Path,
    values: Sequence[Sequence[float]],
    status: Status = "finished",
    objectives: Sequence[str] = OBJECTIVES,
) -> Record:
    """A record whose trials have trained two epochs with these values in the second, and ended."""
    record = new(folder, len(values), objectives)
    for number, of_trial in enumerate(values):
        report(record, number, 1, [of_trial[0] - 0.3, *of_trial[1:]])
        report(record, number, 2, of_trial)
        record.end(number, status)
    return record
