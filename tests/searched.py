"""Records of sweeps that never ran: trials of a known function, written through the Record itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from sweeps.points import Point, told
from sweeps.record import Record
from sweeps.results import Sweep, load
from sweeps.rungs import goes_on
from sweeps.space import FlatSpace
from trainables import digits_mlp

Score = Callable[[Mapping[str, Any]], float]
"""Params to the score at the end; nan diverges."""
SPACE: dict[str, Any] = {
    "lr": tune.loguniform(1e-3, 1.0),
    "momentum": tune.uniform(0.0, 0.95),
    "hidden": tune.qrandint(8, 64, 8),
}
SETTINGS = {"max_epochs": 9, "grace_epochs": 3, "reduction_factor": 3}


def searched(
    folder: Path,
    score: Score,
    trials: int = 24,
    space: Mapping[str, Any] | None = None,
    prunes: bool = True,
    points: Sequence[Mapping[str, Any]] | None = None,
) -> Sweep:
    """A random search of `score` with rungs at epochs 3 and 9: a trial has a third of its score at epoch 3
    and all of it at 9.

    Args:
        folder: of the record; made.
        score: of params.
        trials: how many, where no points are given.
        space: in place of that of digits_mlp.
        prunes: as ASHA does at epoch 3.
        points: what is tried, in place of random draws.
    """
    folder.mkdir(parents=True)
    about = {"sweep": folder.name, "metric": "val_acc", "trainable": "digits_mlp", **{"max_epochs": 9}}
    record = Record.create(folder, folder.name, "max", {**about, "identity": {"settings": SETTINGS}})
    flat = FlatSpace(space or SPACE, {"batch_size": 64}, digits_mlp.Params, "digits_mlp")
    drawn = [flat.draw((0, number)) for number in range(trials)]
    if points is not None:
        drawn = [Point("digits_mlp", dict(point), {"batch_size": 64}) for point in points]
    for point in drawn:
        _train(record, record.begin(point, told(flat, point), 0).number, score(point.params), prunes)
    return load(folder)


def _train(record: Record, number: int, score: float, prunes: bool) -> None:
    for epoch in range(1, 10):
        at_epoch = score * epoch / 9
        before = list(record.scores_at(epoch).values())
        record.report(number, epoch, at_epoch, {"val_acc": at_epoch}, 0.1)
        if not math.isfinite(at_epoch):
            record.end(number, "diverged", "val_acc is nan")
            return
        if prunes and epoch == 3 and not goes_on(at_epoch, before, 3, "max"):
            record.end(number, "pruned")
            return
    record.end(number, "finished")


def peak(lr: float, noise: float = 0.0) -> Score:
    """Best at this lr; momentum helps a little, hidden not at all."""
    generator = np.random.default_rng(0)

    def score(params: Mapping[str, Any]) -> float:
        off = math.log10(float(params["lr"]) / lr)
        return 0.9 - 0.2 * off**2 + 0.02 * float(params.get("momentum", 0)) + noise * generator.normal()

    return score
