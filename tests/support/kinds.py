"""Records of every kind of sweep that a page or a figure must make sense of, written by the real record."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from sweeps.record.record import Record
from sweeps.record.reruns import seeds
from sweeps.record.trials import Status
from tests.conftest import propose

RANGES: dict[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-4, 1.0, log=True),
    "momentum": FloatDistribution(0.0, 0.95),
    "width": CategoricalDistribution([4, 8, 16]),
}
of_conditions = pytest.mark.skipif(
    int(metadata.version("optuna").split(".")[0]) < 5,
    reason="before Optuna 5, what not all trials had has no importance",
)
COSTS = {"data_wait_pct": 10.0, "forward_pct": 40.0, "backward_pct": 30.0, "cpu_busy_pct": 80.0}


def begun(folder: Path, **about: Any) -> Record:
    """A record without a trial."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {"sweep": folder.name, "trainable": "toy", "metric": "acc", "seed": 0, "max_epochs": 9}
    return Record.create(folder, folder.name, "max", {**known, **about})


def add(
    record: Record,
    params: Mapping[str, Any],
    last: int,
    status: Status = "finished",
    reason: str = "",
    ranges: Mapping[str, BaseDistribution] = RANGES,
    score: Callable[[int], float] | None = None,
    **more: Any,
) -> None:
    """A trial with `last` epochs."""
    with record.together():
        trial = propose(record, params, {name: ranges[name] for name in params if name in ranges}, **more)
        record.place(trial.number, {"pc": f"pc{trial.number % 2}", "pid": 100 + trial.number % 4, "gpu": ""})
        for epoch in range(1, last + 1):
            value = _score(params, epoch) if score is None else score(epoch)
            sizes = {"size_m": float(params.get("width", 0)), "ms": 20.0 - value}
            others = {name: size for name, size in sizes.items() if name in record.objectives.metrics}
            record.report(trial.number, epoch, value, {"acc": value, **others}, 1.0, COSTS)
        if status != "unfinished":
            record.end(trial.number, status, reason)


def rerun(record: Record, number: int, score: float, status: Status = "finished") -> int:
    """A trial again with its next new seed, an epoch long; the number of the rerun."""
    original = record.trials[number]
    seed = seeds(0, 1 + len(record.reruns_of(number)))[-1]
    again = record.begin(original.point, original.optuna, seed, confirms=number)
    record.report(again.number, 1, score, {"acc": score}, 1.0, COSTS)
    if status != "unfinished":
        record.end(again.number, status)
    return again.number


def drawn(seed: int) -> dict[str, Any]:
    """Params of `RANGES`, at random."""
    source = random.Random(seed)
    return {
        "lr": 10 ** source.uniform(-4, 0),
        "momentum": source.uniform(0, 0.95),
        "width": source.choice([4, 8, 16]),
    }


def _score(params: Mapping[str, Any], epoch: int) -> float:
    """Best at a learning rate of 0.01; the rest hardly counts."""
    return 1 - abs(math.log10(params.get("lr", 0.1)) + 2) / 4 - 0.3 / epoch + params.get("momentum", 0) / 50


def empty(record: Record) -> None:
    """No trial has begun."""


def single(record: Record) -> None:
    add(record, drawn(0), 9)


def one_hyperparameter(record: Record) -> None:
    for number in range(24):
        add(record, {"lr": drawn(number)["lr"]}, 9)


def constant(record: Record) -> None:
    for number in range(24):
        add(record, drawn(number), 9, score=lambda epoch: 0.5)


def pruned(record: Record) -> None:
    """As ASHA leaves it: 30 trials, rungs at 1 and 3, 10 and 4 went on."""
    record.note("outcome", "finished")
    for number in range(30):
        last = 1 if number % 3 else 3 if number % 9 else 9
        add(record, drawn(number), last, "finished" if last == 9 else "pruned")


def running(record: Record) -> None:
    record.note("outcome", "running")
    for number in range(6):
        add(record, drawn(number), 3, "pruned")
    add(record, drawn(6), 2, "unfinished")
    add(record, drawn(7), 0, "unfinished")


def failed_only(record: Record) -> None:
    for number in range(4):
        add(record, drawn(number), 0, "failed", f"RuntimeError: out of memory at <step {number}>")


def troubled(record: Record) -> None:
    """All of 10 trials with a rate above 0.12 diverge, and of 30 below none does; one fails."""
    for number in range(30):
        add(record, {**drawn(number), "lr": 10 ** (-4 + 3 * number / 30)}, 9)
    for number in range(10):
        params = {**drawn(number), "lr": 0.15 + number / 20}
        reason = f"acc was nan in epoch {number + 2}"
        add(record, params, 2, "diverged", reason, score=lambda epoch: 0.3 if epoch == 1 else math.nan)
    add(record, drawn(0), 1, "failed", "OSError: <no space>")


def conditional(record: Record) -> None:
    """Momentum is a hyperparameter of one optimizer alone."""
    ranges = {**RANGES, "optimizer": CategoricalDistribution(["sgd", "adam"])}
    for number in range(40):
        params = {**drawn(number), "optimizer": "sgd" if number % 2 else "adam"}
        if params["optimizer"] == "adam":
            del params["momentum"]
        add(record, params, 9, ranges=ranges)


def several(record: Record) -> None:
    """Two trainables, whose hyperparameters are called alike, told apart as the record tells Optuna."""
    from sweeps.space.point import OptunaPoint, Point

    names = CategoricalDistribution(["cnn", "mlp"])
    record.note("trainable", ["cnn", "mlp"])
    for number in range(40):
        model, params = ("cnn" if number % 2 else "mlp"), drawn(number)
        words = {f"{model}.{name}": value for name, value in params.items()}
        ranges = {f"{model}.{name}": RANGES[name] for name in params}
        told = OptunaPoint({"trainable": model, **words}, {"trainable": names, **ranges})
        record.begin(Point(model, params), told, 0)
        for epoch in (1, 2, 3):
            record.report(number, epoch, _score(params, epoch), {"acc": 0.5}, 1.0)
        record.end(number, "finished")


def weighed(record: Record) -> None:
    """Two objectives, and some trials that were pruned or failed."""
    for number in range(24):
        last, status = (9, "finished") if number % 3 else (3, "pruned")
        add(record, drawn(number), last, status)
    add(record, drawn(24), 1, "failed", "OSError: no space")


def weighed_by_three(record: Record) -> None:
    weighed(record)


def without_words(record: Record) -> None:
    """Hyperparameters that Optuna has no word for, of mixed types, and names that a page must not take for
    tags."""
    record.note("metric", "<b>acc</b>")
    for number in range(24):
        params = {
            "<i>n</i>": [number, "all", True][number % 3],
            "scale": 1 + number / 7,
            "ok": number % 2 == 0,
        }
        add(record, params, 3, "unfinished" if number == 23 else "finished", score=lambda e: e * 1.0)


KINDS: dict[str, Callable[[Record], None]] = {
    kind.__name__: kind
    for kind in (
        *(empty, single, one_hyperparameter, constant, pruned, running, failed_only, troubled),
        *(conditional, several, without_words, weighed, weighed_by_three),
    )
}


ABOUT: dict[str, dict[str, Any]] = {
    "weighed": {"objectives": ["acc:max", "size_m:min"]},
    "weighed_by_three": {"objectives": ["acc:max", "size_m:min", "ms:min"]},
}


def write(kind: str, folder: Path) -> Path:
    """The record of a kind of sweep, in a new folder; that."""
    record = begun(folder, **ABOUT.get(kind, {}))
    with record.together():
        KINDS[kind](record)
    return folder
