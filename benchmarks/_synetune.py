"""Syne Tune's ASHACQR, asked over replayed curves: it proposes by a conformal quantile regression per rung.

Salinas et al., 2023, https://arxiv.org/abs/2305.03623; https://syne-tune.readthedocs.io
"""

from __future__ import annotations

import heapq
import importlib.util
import itertools
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ray.tune.search import sample

from benchmarks._problems import Epoch, Problem

NAME = "Syne Tune ASHACQR"


def is_installed() -> bool:
    """Whether it and what its model needs are there; pip without --no-deps adds packages of CUDA."""
    return all(importlib.util.find_spec(name) for name in ("syne_tune", "xgboost", "dill", "huggingface_hub"))


def search(problem: Problem, seed: int, slots: int, grace_epochs: int, factor: int) -> Iterator[Epoch]:
    """Epochs as they come in, without an end.

    Args:
        problem: its space and curves.
        seed: of the proposals.
        slots: trials at a time.
        grace_epochs: first rung.
        factor: ratio between rungs.
    """
    from syne_tune.backend.trial_status import Trial
    from syne_tune.optimizer.baselines import ASHACQR

    scheduler = ASHACQR(
        config_space_of(problem.space), "score", "epoch", problem.max_epochs, do_minimize=False,
        random_seed=seed, grace_period=grace_epochs, reduction_factor=factor,
    )  # fmt: skip
    running: list[tuple[float, int, int, Any]] = []
    numbers, events, now = itertools.count(), itertools.count(), 0.0
    while True:
        while len(running) < slots:
            trial = Trial(next(numbers), scheduler.suggest().config, datetime.now())
            scheduler.on_trial_add(trial)
            heapq.heappush(running, (now + problem.curve(trial.config).seconds[0], next(events), 1, trial))
        now, _, epoch, trial = heapq.heappop(running)
        curve = problem.curve(trial.config)
        score = curve.scores[epoch - 1]
        yield Epoch(f"{trial.trial_id:05d}", curve.point, epoch, score)
        decision = scheduler.on_trial_result(
            trial, {"score": score if math.isfinite(score) else 0.0, "epoch": epoch}
        )
        if decision == "CONTINUE" and epoch < problem.max_epochs:
            heapq.heappush(running, (now + curve.seconds[epoch], next(events), epoch + 1, trial))


def config_space_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's domains as Syne Tune's; whole numbers of Syne Tune include the upper end."""
    from syne_tune import config_space

    found = {}
    for name, domain in space.items():
        is_log = isinstance(domain.get_sampler(), sample.LogUniform)
        if isinstance(domain, sample.Integer):
            whole = config_space.lograndint if is_log else config_space.randint
            found[name] = whole(domain.lower, domain.upper - 1)
        elif isinstance(domain, sample.Float):
            found[name] = (config_space.loguniform if is_log else config_space.uniform)(
                domain.lower, domain.upper
            )
        else:
            raise TypeError(f"{name}: {type(domain).__name__} has no counterpart in Syne Tune here")
    return found
