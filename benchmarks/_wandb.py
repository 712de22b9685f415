"""The search of W&B Sweeps, asked over replayed curves: Bayes with Hyperband, by its own engine.

https://github.com/wandb/sweeps (MIT). Its package has the name of this program, so it runs in an environment
of its own, whose Python is named by the variable BENCHMARK_WANDB:
python -m venv wandb && wandb/bin/pip install git+https://github.com/wandb/sweeps@b1dfc5f
BENCHMARK_WANDB=wandb/bin/python .venv/bin/python -m benchmarks.search
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ray.tune.search import sample

from benchmarks._asked import GRACE_EPOCHS, REDUCTION_FACTOR
from benchmarks._problems import Problem

PYTHON = "BENCHMARK_WANDB"
"""Variable of the Python that has W&B's engine."""
WANDBS: Mapping[str, Mapping[str, Any]] = {
    "W&B Bayes + Hyperband": {},
    "W&B Bayes + Hyperband, not strict": {"strict": False},
}
"""Arm to settings of early_terminate beside rungs; strict is what the engine itself takes."""


def is_installed() -> bool:
    """Whether the variable names a Python."""
    return bool(os.environ.get(PYTHON))


def version() -> str:
    """Of the engine."""
    code = "import importlib.metadata; print(importlib.metadata.version('sweeps'))"
    command = [os.environ[PYTHON], "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Search:
    """A sweep of W&B's engine.

    A run that is stopped counts as finished, with its best score. (Where a stopped run counts as killed, the
    engine takes it to be as bad as the worst of all.)

    Args:
        arm: of WANDBS.
        problem: its space.
        seed: of the proposals.
    """

    def __init__(self, arm: str, problem: Problem, seed: int) -> None:
        early = {"type": "hyperband", "min_iter": GRACE_EPOCHS, "eta": REDUCTION_FACTOR, **WANDBS[arm]}
        config = {
            "method": "bayes",
            "metric": {"name": "val_acc", "goal": "maximize"},
            "early_terminate": early,
            "parameters": parameters_of(problem.space),
        }
        _ask({"config": config, "seed": seed})

    def propose(self) -> Mapping[str, Any]:
        found: dict[str, Any] = _ask(None)
        return found

    def hear(self, number: int, epoch: int, score: float, is_last: bool) -> Collection[int]:
        found: list[int] = _ask({"number": number, "score": score, "is_last": is_last})
        return found


def _ask(question: Any) -> Any:
    engine = _engine()
    assert engine.stdin is not None
    assert engine.stdout is not None
    engine.stdin.write(json.dumps(question) + "\n")
    engine.stdin.flush()
    return json.loads(engine.stdout.readline())


@cache
def _engine() -> subprocess.Popen[str]:
    """One for all searches of this process, one after the other; it ends with this process."""
    # -I: without this folder and PYTHONPATH, where this program is found.
    command = [os.environ[PYTHON], "-I", str(Path(__file__).with_name("_wandb_engine.py"))]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def parameters_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's domains as W&B's; whole numbers of W&B include the upper end."""
    found: dict[str, Any] = {}
    for name, domain in space.items():
        is_log = isinstance(domain.get_sampler(), sample.LogUniform)
        if isinstance(domain, sample.Integer):
            found[name] = {"min": domain.lower, "max": domain.upper - 1}
            found[name] |= {"distribution": "q_log_uniform_values", "q": 1} if is_log else {}
        elif isinstance(domain, sample.Float):
            found[name] = {"min": domain.lower, "max": domain.upper}
            found[name] |= {"distribution": "log_uniform_values" if is_log else "uniform"}
        else:
            raise TypeError(f"{name}: {type(domain).__name__} has no counterpart in W&B Sweeps here")
    return found
