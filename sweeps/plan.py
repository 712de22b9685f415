"""The plan: all that a sweep will do, checked and printed before any resource is taken."""

from __future__ import annotations

import bisect
import dataclasses
import math
import os
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from sweeps import cluster, models, registry
from sweeps.config import SweepConfig, UserError, nearest, one_or_several
from sweeps.models import Model
from sweeps.points import Space
from sweeps.rungs import rungs
from sweeps.words import GB, count, place, size

DEFAULT_TRIALS = 24


@dataclass(frozen=True)
class Plan:
    """A checked sweep."""

    config: SweepConfig
    """Every setting in place: nothing that follows looks up a default."""
    models: tuple[Model, ...]
    searcher: ModuleType
    scheduler: ModuleType
    space: Space
    """All that is tried, of all models."""
    folder: Path


def make_plan(config: SweepConfig) -> Plan:
    """Find the plug-ins, check that they fit together, settle the defaults.

    Raises:
        UserError: what does not fit, with the choices that do.
    """
    searcher = registry.find("searcher", config.searcher)
    scheduler = registry.find("scheduler", config.scheduler)
    _check_pair(config, searcher)
    found = models.find(config, searcher)
    space = models.whole(found)
    if hasattr(searcher, "check"):
        searcher.check(space)
    metric, mode = models.metric_and_mode(config, found)
    config = dataclasses.replace(
        config,
        name=config.name or _name(found),
        search_space=one_or_several([model.space_name for model in found]),
        metric=metric,
        mode=mode,
        num_trials=_num_trials(config, space),
    )
    folder = Path(config.results_dir).expanduser().resolve() / str(config.name)
    _check_place(config, folder)
    if folder.exists() and config.resume is None:
        raise UserError(f"--name {config.name}: {folder} exists already; give another name")
    if config.address is None:
        cluster.slots(config, [cluster.this_pc()])
    return Plan(config, found, searcher, scheduler, space, folder)


def describe(plan: Plan) -> str:
    """The plan in lines of words and numbers with units."""
    config = plan.config
    epochs_to_end = (config.num_trials or 0) * config.max_epochs
    expected = expected_epochs(config) if config.scheduler == "asha" else epochs_to_end
    names = ", ".join(config.trainables)
    lines = [
        ("sweep", f"{config.name}: {names}, {config.metric} ({config.mode}), seed {config.seed}"),
        *[line for model in plan.models for line in _model(model, alone=len(plan.models) == 1)],
        ("searcher", config.searcher),
        ("scheduler", plan.scheduler.describe(config)),
        ("trials", f"{config.num_trials}, of at most {config.max_epochs} epochs"),
        ("epochs", f"about {expected:,} expected, {epochs_to_end:,} without pruning"),
        ("resources", _resources(config)),
        ("folder", place(plan.folder)),
    ]
    return "\n".join(f"{title:<10} {text}" for title, text in lines)


def expected_epochs(config: SweepConfig) -> int:
    """Epochs that successive halving trains, by simulation with scores in random order."""
    generator = random.Random(0)
    num_trials, judged = config.num_trials or 0, rungs(config)
    simulated = min(num_trials, 10_000)
    repeats = max(1, min(20, 2_000 // max(1, simulated)))
    total = 0
    for _ in range(repeats):
        seen: dict[int, list[float]] = {epoch: [] for epoch in judged}
        for _ in range(simulated):
            score, reached = generator.random(), config.max_epochs
            for epoch in judged:
                cutoff = _quantile(seen[epoch], 1 - 1 / config.reduction_factor)
                bisect.insort(seen[epoch], score)
                if score < cutoff:
                    reached = epoch
                    break
            total += reached
    return round(total / repeats / max(1, simulated) * num_trials)


def _quantile(in_order: list[float], share: float) -> float:
    """As `goes_on` has it, of scores kept in order: 10,000 trials take a moment."""
    if not in_order:
        return -math.inf
    below, part = divmod((len(in_order) - 1) * share, 1)
    low, high = in_order[int(below)], in_order[min(int(below) + 1, len(in_order) - 1)]
    return low + part * (high - low)


def _check_place(config: SweepConfig, folder: Path) -> None:
    """The results folder need not exist, but must be one that can be made."""
    there = next(parent for parent in folder.parents if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UserError(f"--results-dir {config.results_dir}: {there} is no folder that can be written to")
    free = shutil.disk_usage(there).free
    if free < config.min_free_gb * GB:
        raise UserError(
            f"--min-free-gb {config.min_free_gb:g}: only {size(free)} are free on the disk of {there}; "
            "free some space, or take another --results-dir"
        )


def _check_pair(config: SweepConfig, searcher: ModuleType) -> None:
    if config.scheduler in searcher.SCHEDULERS or "." in config.scheduler:
        return
    known = registry.choices("searcher")
    pairs = [f"{name} with {', '.join(registry.find('searcher', name).SCHEDULERS)}" for name in known]
    raise UserError(
        f"--searcher {config.searcher} does not work with --scheduler {config.scheduler}."
        f"{nearest(config.scheduler, searcher.SCHEDULERS)} Pairs that work: {'; '.join(pairs)}."
    )


def _num_trials(config: SweepConfig, space: Space) -> int:
    size = space.size()
    if config.resume is not None and config.num_trials is not None:
        return config.num_trials  # the searcher says when a space has no more
    if config.num_trials is not None:
        return int(min(config.num_trials, size))
    return int(size) if config.searcher == "grid" else int(min(DEFAULT_TRIALS, size))


def _model(model: Model, alone: bool) -> list[tuple[str, str]]:
    """What is trained and tried of a model."""
    size, knobs = model.space.size(), model.space.describe()
    points = "" if size == float("inf") else f", {int(size):,} points"
    return [
        *([] if alone else [("model", model.name)]),
        ("data", model.data),
        ("space", f"{model.space_name}: {count(len(knobs), 'knob')}{points}"),
        *[("", f"  {name:<14} {words}") for name, words in knobs.items()],
        ("fixed", ", ".join(f"{name}={value}" for name, value in model.space.fixed.items()) or "nothing"),
    ]


def _name(found: Sequence[Model]) -> str:
    """A sweep without one is called after its models and the time of day."""
    named = "-".join(model.name.split(".")[-1] for model in found)
    return f"{named[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"


def _resources(config: SweepConfig) -> str:
    cpus = count(config.cpus_per_trial, "CPU")
    if config.address is not None:
        gpus = "" if config.gpus_per_trial is None else f" and {count(config.gpus_per_trial, 'GPU')}"
        return f"{cpus}{gpus} a trial, on the Ray cluster at {config.address}"
    here = cluster.this_pc()
    return (
        f"{count(cluster.slots(config, [here]), 'trial')} at a time on this PC "
        f"({count(here.cpus, 'CPU')}, {count(here.gpus, 'GPU')}), "
        f"each {cpus} and {count(cluster.gpus_per_trial(config, [here]), 'GPU')}"
    )
