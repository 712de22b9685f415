"""Searches that have ended, and the reruns of their best trials with new seeds."""

from __future__ import annotations

from pathlib import Path

from optuna.distributions import FloatDistribution

from sweeps.record.record import Record
from sweeps.record.reruns import seeds
from sweeps.record.trials import Status, TrialRow
from tests.conftest import propose

HYPERPARAMETER = {"slope": FloatDistribution(0.1, 1.0)}
ASKED = {"top": 2, "seeds": 2}


def searched(at: Path, *scores: float, mode: str = "max") -> Record:
    """A search that has ended, a trial of one epoch for each score."""
    record = Record.create(at, "s", mode, {"metric": "score", "seed": 0})
    for score in scores:
        add(record, score)
    return record


def add(record: Record, score: float) -> TrialRow:
    """A trial of the search from its start to its end."""
    trial = propose(record, {"slope": 0.1 + len(record.searched) / 100}, HYPERPARAMETER)
    record.report(trial.number, 1, score, {"score": score}, 1.0)
    record.end(trial.number, "finished")
    return trial


def rerun(record: Record, number: int, seed: int, score: float, status: Status = "finished") -> TrialRow:
    trial = record.trials[number]
    again = record.begin(trial.point, trial.optuna, seed, confirms=number)
    record.report(again.number, 1, score, {"score": score}, 1.0)
    if status != "unfinished":
        record.end(again.number, status)
    return again


def confirmed(at: Path) -> Record:
    """Trial 1 leads by 0.9, but its reruns have a mean of 0.5; those of trial 2 one of 0.7."""
    record = searched(at, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    for number, scores in ((1, (0.4, 0.6)), (2, (0.75, 0.65))):
        for seed, score in zip(seeds(0, 2), scores, strict=True):
            rerun(record, number, seed, score)
    return record
