"""The plan: all that a sweep will do, checked and printed before any resource is taken."""

from __future__ import annotations

import bisect
import dataclasses
import math
import os
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from sweeps import cluster, conditional, registry
from sweeps.config import SweepConfig, UserError, nearest
from sweeps.rungs import rungs
from sweeps.space import FlatSpace
from sweeps.space import check as check_space
from sweeps.words import GB, count, place, size

DEFAULT_TRIALS = 24

OneSpace = FlatSpace | conditional.ConditionalSpace


@dataclass(frozen=True)
class Plan:
    """A checked sweep."""

    config: SweepConfig
    """Every setting in place: nothing that follows looks up a default."""
    trainable: ModuleType
    searcher: ModuleType
    scheduler: ModuleType
    space: OneSpace
    data: str
    folder: Path


def make_plan(config: SweepConfig) -> Plan:
    """Find the plug-ins, check that they fit together, settle the defaults.

    Raises:
        UserError: what does not fit, with the choices that do.
    """
    trainable = registry.find("trainable", config.trainable)
    searcher = registry.find("searcher", config.searcher)
    scheduler = registry.find("scheduler", config.scheduler)
    _check_pair(config, searcher)
    space_name = config.search_space or config.trainable
    space = _space_of(config, space_name, trainable, searcher)
    if hasattr(searcher, "check"):
        searcher.check(space)
    if config.metric not in (None, trainable.METRIC) and config.mode is None:
        raise UserError(
            f"--metric {config.metric}: give --mode too: is a small (min) or a large (max) one good?"
        )
    config = dataclasses.replace(
        config,
        name=config.name or f"{config.trainable.split('.')[-1]}-{time.strftime('%Y%m%d-%H%M%S')}",
        search_space=space_name,
        metric=config.metric or trainable.METRIC,
        mode=config.mode or trainable.MODE,
        num_trials=_num_trials(config, space),
    )
    folder = Path(config.results_dir).expanduser().resolve() / str(config.name)
    _check_place(config, folder)
    if folder.exists() and config.resume is None:
        raise UserError(f"--name {config.name}: {folder} exists already; give another name")
    if config.address is None:
        cluster.slots(config, [cluster.this_pc()])
    return Plan(config, trainable, searcher, scheduler, space, _data(config, trainable, space), folder)


def describe(plan: Plan) -> str:
    """The plan in lines of words and numbers with units."""
    config, space = plan.config, plan.space
    epochs_to_end = (config.num_trials or 0) * config.max_epochs
    expected = expected_epochs(config) if config.scheduler == "asha" else epochs_to_end
    lines = [
        ("sweep", f"{config.name}: {config.trainable}, {config.metric} ({config.mode}), seed {config.seed}"),
        ("data", plan.data),
        ("space", _space(config, space)),
        *[("", f"  {name:<14} {words}") for name, words in space.describe().items()],
        ("fixed", ", ".join(f"{name}={value}" for name, value in space.fixed.items()) or "nothing"),
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


def _space_of(config: SweepConfig, name: str, trainable: ModuleType, searcher: ModuleType) -> OneSpace:
    """A file's SPACE or `suggest`, checked."""
    file = registry.find("search_space", name)
    rest = (trainable.Params, config.params, searcher.TAKES, config.searcher, config.trainable)
    if hasattr(file, "suggest"):
        return conditional.check(file.suggest, *rest)
    return check_space(file.SPACE, *rest)


def _num_trials(config: SweepConfig, space: OneSpace) -> int:
    size = space.size()
    if config.resume is not None and config.num_trials is not None:
        return config.num_trials  # the searcher says when a space has no more
    if config.num_trials is not None:
        return int(min(config.num_trials, size))
    return int(size) if config.searcher == "grid" else int(min(DEFAULT_TRIALS, size))


def _data(config: SweepConfig, trainable: ModuleType, space: OneSpace) -> str:
    """What the trainable says of its data; a data set that is missing is found here."""
    if not hasattr(trainable, "describe_data"):
        return f"as {config.trainable}.build_data has it"
    try:
        return str(trainable.describe_data(trainable.Params(**space.fixed)))
    except OSError as error:
        raise UserError(str(error)) from None


def _space(config: SweepConfig, space: OneSpace) -> str:
    size = space.size()
    points = "" if size == float("inf") else f", {int(size):,} points"
    return f"{config.search_space}: {count(len(space.describe()), 'knob')}{points}"


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
