"""Sweeps that never train: real plans, searchers and records, and a known function for the scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.search import Searcher

from sweeps.analysis.sweep import Sweep, load
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import folder, run_start
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from tests.conftest import propose

Score = Callable[[Mapping[str, Any]], float]
"""Params to the score at the end; nan diverges."""


def searched(results_dir: Path, name: str, score: Score, **settings: Any) -> Sweep:
    """A sweep of digits_mlp over 9 epochs, judged at epoch 3, where a trial has a third of its score.

    Args:
        results_dir: where its folder is made.
        name: of the sweep.
        score: of params.
        settings: other ones of SweepConfig.
    """
    asked: dict[str, Any] = {"trainable": "digits_mlp", "searcher": "random", "scheduler": "asha"}
    asked |= {"baseline": False, "max_epochs": 9, "name": name, "results_dir": str(results_dir), **settings}
    return carried_out(make_plan(SweepConfig.from_settings(**asked)), score)


def carried_out(plan: Plan, score: Score, trials: int | None = None, gpu: str | None = None) -> Sweep:
    """A planned sweep, one trial after the other.

    Args:
        plan: what is tried; of a new sweep, or of one to go on with.
        score: of params.
        trials: after how many it breaks off; None for all.
        gpu: that all train on; "" is none, None does not say.
    """
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        searcher = plan.searcher.build(plan.config, plan.space, record)
        while trials is None or len(record.trials) < trials:
            if (given := searcher.suggest("")) == Searcher.FINISHED:
                record.note("outcome", "finished")
                break
            if gpu is not None:
                record.place(given["number"], {"pc": "pc0", "pid": 1, "gpu": gpu})
            _train(plan, record, given["number"], score(given["params"]))
    return load(plan.folder)


def _train(plan: Plan, record: Record, number: int, score: float) -> None:
    for epoch in range(1, plan.config.max_epochs + 1):
        at_epoch = score * epoch / plan.config.max_epochs
        record.report(number, epoch, at_epoch, {"val_acc": at_epoch}, 0.1)
        if not math.isfinite(at_epoch):
            record.end(number, "diverged", "val_acc is nan")
            return
        if plan.scheduler.ends_at(plan.config, record, number, epoch):
            record.end(number, "pruned")
            return
    record.end(number, "finished")


def peak(lr: float, noise: float = 0.0) -> Score:
    """Best at this lr; momentum helps a little, hidden not at all."""
    generator = np.random.default_rng(0)

    def score(params: Mapping[str, Any]) -> float:
        off = math.log10(float(params.get("lr", lr)) / lr)
        return 0.9 - 0.2 * off**2 + 0.02 * float(params.get("momentum", 0)) + noise * generator.normal()

    return score


def by_hand(
    folder: Path, scores: list[float], words: Mapping[str, Any], params: list[dict[str, Any]]
) -> Sweep:
    """Trials of one epoch."""
    record = Record.create(folder, "s", "max", {"metric": "acc", "max_epochs": 1, "outcome": "finished"})
    for score, of_trial in zip(scores, params, strict=True):
        number = propose(record, of_trial, words).number
        record.report(number, 1, score, {"acc": score}, 0.1)
        record.end(number, "finished" if math.isfinite(score) else "diverged", "acc is nan")
    return load(folder)
