"""Records on disk, of trials with the scores that a test gives."""

from __future__ import annotations

from pathlib import Path

from sweeps.record.record import Record
from tests.conftest import propose


def make(folder: Path, scores: list[list[float]], mode: str = "max", **about: object) -> Record:
    """A record on disk: a finished trial for each list of scores, an epoch for each of them."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {"sweep": folder.name, "trainable": "digits_mlp", "metric": "val_acc", **about}
    record = Record.create(folder, folder.name, mode, known)
    with record.together():
        for number, of_trial in enumerate(scores):
            propose(record, {"lr": 0.1 + number}, trainable="digits_mlp", seed=number)
            for epoch, score in enumerate(of_trial, start=1):
                record.report(number, epoch, score, {"val_acc": score}, 36.0)
            record.end(number, "finished")
    return record
