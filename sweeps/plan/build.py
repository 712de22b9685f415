"""The plan: all that a sweep will do, checked and printed before any resource is taken."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from sweeps.cluster import placement, session
from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, size
from sweeps.common.yaml_values import nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig, one_or_several
from sweeps.plan import models as plan_models
from sweeps.plan import parents as plan_parents
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.space.point import Space
from sweeps.storage import setting as storage_setting

DEFAULT_TRIALS = 24


def make_plan(config: SweepConfig) -> Plan:
    """Find the plug-ins, check that they fit together, settle the defaults.

    Raises:
        UserError: what does not fit, with the choices that do.
    """
    searcher = plugins.find("searcher", config.searcher)
    scheduler = plugins.find("scheduler", config.scheduler)
    _check_pair(config, searcher)
    for name in config.logger_names:
        plugins.find("logger", name)
    if not config.parents or config.resume is not None:
        return _plan(config, searcher, scheduler)
    from sweeps.plan import refine  # SciPy and scikit-learn, which other sweeps do without

    parents = plan_parents.look(config)
    narrowed = refine.narrowed(config, parents, searcher)
    plan = _plan(narrowed.config, searcher, scheduler)
    taken = plan_parents.of(plan, parents, narrowed.ignored, narrowed.lines)
    return dataclasses.replace(plan, lineage=taken)


def _plan(config: SweepConfig, searcher: ModuleType, scheduler: ModuleType) -> Plan:
    found = plan_models.find(config, searcher)
    space = plan_models.whole(found)
    if hasattr(searcher, "check"):
        searcher.check(space)
    objective = plan_models.objective(config, found)
    config = config.changed(
        name=config.name or _name(found),
        search_space=one_or_several([model.space_name for model in found]),
        metric=objective.metric,
        mode=objective.mode,
        num_trials=_num_trials(config, space),
        storage=storage_setting.check_setting(config.storage),
    )
    folder = Path(config.results_dir).expanduser().resolve() / str(config.name)
    _check_place(config, folder)
    if folder.exists() and config.resume is None:
        raise UserError(f"--name {config.name}: {folder} exists already; give another name")
    if config.address is None:
        placement.slots(config, [session.this_pc()])
        _check_precision(config)
    return Plan(config, found, searcher, scheduler, space, folder)


def _check_precision(config: SweepConfig) -> None:
    if config.fit.precision == "16-mixed" and not placement.gpus_per_trial(config, [session.this_pc()]):
        raise UserError(
            "--precision 16-mixed: fp16 is of GPUs, and a trial has none here; a CPU takes 32, bf16-mixed"
        )


def _check_place(config: SweepConfig, folder: Path) -> None:
    """The results folder need not exist, but must be one that can be made."""
    if fault := atomic_io.place_fault(folder):
        raise UserError(f"--results-dir {config.results_dir}: {fault}")
    there = next(parent for parent in folder.parents if parent.exists())
    free = shutil.disk_usage(there).free
    if free < config.min_free_gb * GB:
        raise UserError(
            f"--min-free-gb {config.min_free_gb:g}: only {size(free)} are free on the disk of {there}; "
            "free some space, or take another --results-dir"
        )


def _check_pair(config: SweepConfig, searcher: ModuleType) -> None:
    if config.scheduler in searcher.SCHEDULERS or "." in config.scheduler:
        return
    known = plugins.choices("searcher")
    pairs = [f"\n  {name} with {', '.join(plugins.find('searcher', name).SCHEDULERS)}" for name in known]
    raise UserError(
        f"--searcher {config.searcher} does not work with --scheduler {config.scheduler}."
        f"{nearest(config.scheduler, searcher.SCHEDULERS)} "
        f"Pairs of searcher and scheduler that work:{''.join(pairs)}"
    )


def _num_trials(config: SweepConfig, space: Space) -> int:
    size = space.size()
    if config.resume is not None and config.num_trials is not None:
        return config.num_trials  # the searcher says when a space has no more
    if config.num_trials is not None:
        return int(min(config.num_trials, size))
    return int(size) if config.searcher == "grid" else int(min(DEFAULT_TRIALS, size))


def _name(found: Sequence[Model]) -> str:
    """A sweep without one is called after its models and the time of day."""
    named = "-".join(model.name.split(".")[-1] for model in found)
    return f"{named[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"
