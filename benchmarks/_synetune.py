"""Syne Tune's ASHACQR, asked over replayed curves: it proposes by a conformal quantile regression per rung.

Salinas et al., 2023, https://arxiv.org/abs/2305.03623; https://syne-tune.readthedocs.io
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from ray.tune.search import sample

from benchmarks._problems import Problem

NAME = "Syne Tune ASHACQR"


def is_installed() -> bool:
    """Whether it and what its model needs are there; pip without --no-deps adds packages of CUDA."""
    return all(importlib.util.find_spec(name) for name in ("syne_tune", "xgboost", "dill", "huggingface_hub"))


class Search:
    """Its scheduler.

    Args:
        problem: its space and the length of its curves.
        seed: of the proposals.
        grace_epochs: first rung.
        factor: ratio between rungs.
    """

    def __init__(self, problem: Problem, seed: int, grace_epochs: int, factor: int) -> None:
        from syne_tune.optimizer.baselines import ASHACQR

        self._scheduler = ASHACQR(
            config_space_of(problem.space), "score", "epoch", problem.max_epochs, do_minimize=False,
            random_seed=seed, grace_period=grace_epochs, reduction_factor=factor,
        )  # fmt: skip
        self._trials: list[Any] = []

    def propose(self) -> Mapping[str, Any]:
        from syne_tune.backend.trial_status import Trial

        config: dict[str, Any] = self._scheduler.suggest().config
        self._trials.append(Trial(len(self._trials), config, datetime.now()))
        self._scheduler.on_trial_add(self._trials[-1])
        return config

    def hear(self, number: int, epoch: int, score: float, is_last: bool) -> Collection[int]:
        result = {"score": score if math.isfinite(score) else 0.0, "epoch": epoch}
        decision = self._scheduler.on_trial_result(self._trials[number], result)
        return [] if decision == "CONTINUE" else [number]


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
