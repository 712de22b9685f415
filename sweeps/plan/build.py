"""The plan of a sweep: its settings, checked before any resource is taken."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.formatting import GB, size
from sweeps.common.param_types import plain, shown
from sweeps.common.yaml_values import nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig, one_or_several
from sweeps.kinds.registry import new_name, shown_name
from sweeps.kinds.trainable import Trainable
from sweeps.plan import models as plan_models
from sweeps.plan.folder import taken
from sweeps.plan.models import Model
from sweeps.plan.plan import Outside, Plan
from sweeps.ray_cluster import placement, session
from sweeps.search import prior
from sweeps.search.record_scheduler import PruningMethod
from sweeps.search.search_method import SearchMethod
from sweeps.space.optuna_space import Encoding
from sweeps.space.point import Point, Space
from sweeps.space.user_points import Baseline, user_point
from sweeps.storage.open import check_setting
from sweeps.training.config import FIT_SETTINGS, own_settings

DEFAULT_TRIALS = 24
DEFAULT_SEARCHER, DEFAULT_OF_SEVERAL = "gp", "tpe"
"""Without --searcher; the second with several objectives."""


def make_plan(config: SweepConfig) -> Plan:
    """Find the plug-ins, check that they fit together, settle the defaults.

    Raises:
        UserError: what does not fit, with the valid choices.
    """
    are_several = len(config.metrics) > 1
    config = config.changed(
        searcher=config.searcher or (DEFAULT_OF_SEVERAL if are_several else DEFAULT_SEARCHER)
    )
    searcher = plugins.find("searcher", str(config.searcher))
    trainables: Mapping[str, Trainable] = {} if config.scheduler else plan_models.trainables(config)
    config = config.changed(scheduler=config.scheduler or _default_scheduler(trainables, searcher))
    scheduler = plugins.find("scheduler", str(config.scheduler))
    if are_several:
        _check_several(config, searcher, scheduler)
    _check_pair(str(config.searcher), searcher, str(config.scheduler))
    for name in config.logger_names:
        plugins.find("logger", name).check()
    if not config.parents or config.resume is not None:
        return _plan(config, searcher, scheduler, trainables)
    from sweeps.plan import refine  # SciPy and scikit-learn take two seconds, which other sweeps save

    earlier = refine.read(config)
    config, ranges = refine.narrowed(config, earlier, searcher, trainables)
    plan = _plan(config, searcher, scheduler, trainables)
    return _of_new_points(dataclasses.replace(plan, lineage=refine.lineage(plan, earlier, ranges)))


def _default_scheduler(trainables: Mapping[str, Trainable], searcher: type[SearchMethod]) -> str:
    """The first one of the searcher; where trials can't be paused, the first one that does not pause any."""
    if all(trainable.saves for trainable in trainables.values()):
        return next(iter(searcher.SCHEDULERS), "none")
    pauseless = (name for name in searcher.SCHEDULERS if not plugins.find("scheduler", name).PAUSES)
    return next(pauseless, next(iter(searcher.SCHEDULERS), "none"))


def _of_new_points(plan: Plan) -> Plan:
    """A plan that refines others, of at most as many trials as there are points that those have not tried."""
    assert plan.lineage is not None
    earlier = plan.lineage.earlier
    tried = {trial.point.whole for trial in earlier.trials if trial.status != "failed"}
    left = plan.space.size() - len(tried) + len(earlier.anchors)
    if left <= 0:
        raise UserError(
            f"--refine {' '.join(plan.config.parents)}: all {len(tried)} points of the search space were "
            "tried there; give wider --ranges"
        )
    return dataclasses.replace(plan, config=plan.config.changed(num_trials=_num_trials(plan.config, left)))


def _plan(
    config: SweepConfig,
    searcher: type[SearchMethod],
    scheduler: type[PruningMethod],
    trainables: Mapping[str, Trainable],
) -> Plan:
    found = plan_models.find(config, searcher, trainables)
    space = plan_models.whole(found)
    searcher.check(space)
    tries, tries_outside = _tries(config, space)
    believed, not_believed = _prior(config, found, space, searcher)
    config = config.changed(prior=believed)
    has_baselines = config.baseline and not config.parents  # the earlier trials are what others compare with
    baselines = [model.baseline() for model in found] if has_baselines else []
    points = space.size() + sum(len(each.outside) > 0 for each in baselines)
    objectives = plan_models.objectives(config, found)
    first, are_several = objectives.first, objectives.are_several
    config = config.changed(
        name=config.name or new_name(model.name for model in found),
        search_space=one_or_several([model.space_name for model in found]),
        metric=config.metric if are_several else first.metric,
        mode=None if are_several else first.mode,
        **_own_settings(config, found),
        num_trials=(trials := max(_num_trials(config, points), len(tries))),
        storage=check_setting(config.storage),
    )
    plan_models.check_static_metrics(config, found)
    folder = Path(config.results_dir).expanduser().resolve() / str(config.name)
    _check_place(config, folder)
    if folder.exists() and config.resume is None:
        raise UserError(taken(folder))
    if config.address is None:
        placement.slots(config, [session.this_pc()])
        has_gpu = placement.gpus_per_trial(config, [session.this_pc()]) > 0
        if config.max_gpu_hours and not has_gpu:
            raise UserError(
                f"--max-gpu-hours {config.max_gpu_hours:g}: a trial has no GPU here; --time-budget-hours "
                "limits the time"
            )
        if config.fit.precision == "16-mixed" and not has_gpu:
            raise UserError(
                "--precision 16-mixed: fp16 needs a GPU, and a trial has none here; use 32 or bf16-mixed"
            )
    begun_with = _with_room(baselines, trials - len(tries))
    return Plan(
        config, found, searcher, scheduler, space, folder,
        baselines=begun_with, tries=tries, tries_outside=tries_outside, prior_left_out=not_believed,
    )  # fmt: skip


def _prior(
    config: SweepConfig, found: Sequence[Model], space: Space, searcher: type[SearchMethod]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Where good values are believed to be: as the user gives it, else as PRIOR says. A resume has what was
    settled; a sweep that refines others has their trials in place of PRIOR.

    Returns:
        The values; and lines on what PRIOR says that does not fit --ranges, which is left out.

    Raises:
        UserError: it does not fit the space, or the searcher.
    """
    if config.prior and "continuous" not in searcher.TAKES:
        raise UserError(f"--prior: searcher {config.searcher} tries all points; take another --searcher")
    if config.resume is not None:
        return config.prior, ()
    given, files = dict[str, Any](), dict[str, str]()
    if not config.parents and "continuous" in searcher.TAKES:
        for model in found:
            prefix = f"{model.name}." if len(found) > 1 else ""
            given |= {f"{prefix}{name}": each for name, each in model.prior.items()}
            files |= dict.fromkeys(given.keys() - files.keys(), f"PRIOR of {shown_name(model.space_name)}:")
    files = {name: source for name, source in files.items() if name not in config.prior}
    given |= config.prior
    faults, left_out = list[str](), list[str]()
    wrong = prior.beliefs(given, Encoding.from_space(space))[1] if given else {}
    for name, why in wrong.items():
        value = given.pop(name)
        typed = shown(list(value) if isinstance(value, tuple) else value)
        line = f"{files.get(name, '--prior')} {name}={typed}: {why}"
        (left_out if name in files and config.ranges else faults).append(line)
    refuse(faults)
    return {name: plain(each) for name, each in given.items()}, tuple(left_out)


def _with_room(baselines: Sequence[Baseline], room: int) -> tuple[Baseline, ...]:
    """The baselines, of which so many are trained beside the trials of --try."""
    found: list[Baseline] = []
    for each in baselines:
        has_room = sum(before.point is not None for before in found) < room
        none = Baseline(each.trainable, why_not="no trial of --num-trials is left for them")
        found.append(each if has_room or each.point is None else none)
    return tuple(found)


def _own_settings(config: SweepConfig, models: Sequence[Model]) -> dict[str, Any]:
    """The settings that are left to the models' own code or files.

    Raises:
        UserError: they do not fit, or differ: all trials of a sweep have the same epochs.
    """
    of_each = dict[str, dict[str, Any]]()
    for m in models:
        for chosen in m.combinations():
            which = [*([m.name] if len(models) > 1 else []), *(f"{n}={each}" for n, each in chosen.items())]
            params = m.params_of({**m.space.fixed, **chosen})
            of_each[" ".join(which)] = own_settings(config.fit, m.trainable, params)
    first, *others = of_each.values()
    differing = [name for name in FIT_SETTINGS if any(each.get(name) != first.get(name) for each in others)]
    if differing:
        own = {which: [f"{n} {each[n]}" for n in differing if n in each] for which, each in of_each.items()}
        listed = "; ".join(f"{which} has {', '.join(each) or 'none'}" for which, each in own.items())
        where = "--trainable" if len(models) > 1 else f"--ranges {' '.join(models[0].trainable.groups)}"
        given = {"--precision 32" if n == "precision" else "--check-val-every-n-epoch 1" for n in differing}
        raise UserError(
            f"{where}: {' and '.join(differing)} must be the same in all trials: {listed}. Give one for all, "
            f"as {' '.join(sorted(given))}"
        )
    return first


def _tries(config: SweepConfig, space: Space) -> tuple[tuple[Point, ...], tuple[Outside, ...]]:
    """The points of --try, which must all be different, and of a resume those outside the ranges."""
    points: list[Point] = []
    outside: list[Outside] = []
    faults: list[str] = []
    for values in config.tries:
        with collecting(faults, "--try "):
            try:
                point = user_point(space, values)
            except UserError as error:
                if config.resume is None:
                    raise
                outside.append((values, str(error)))
                continue
            if point.key in [each.key for each in points]:
                typed = " ".join(f"{name}={value}" for name, value in values.items())
                raise UserError(f"{typed}: is given twice")
            points.append(point)
    refuse(faults)
    return tuple(points), tuple(outside)


def _check_place(config: SweepConfig, folder: Path) -> None:
    if fault := atomic_io.place_fault(folder):
        raise UserError(f"--results-dir {config.results_dir}: {fault}")
    if (free := atomic_io.free_bytes(folder)) < config.min_free_gb * GB:
        raise UserError(
            f"--min-free-gb {config.min_free_gb:g}: only {size(free)} are free on the disk of "
            f"{config.results_dir}; free some space, or take another --results-dir"
        )


def _check_several(config: SweepConfig, *used: type[SearchMethod | PruningMethod]) -> None:
    faults = []
    for kind, method in zip(("searcher", "scheduler"), used, strict=True):
        if method.TAKES_OBJECTIVES:
            continue
        able = [name for name in plugins.choices(kind) if plugins.find(kind, name).TAKES_OBJECTIVES]
        does = "proposes" if kind == "searcher" else "prunes"
        faults.append(
            f"--{kind} {getattr(config, kind)}: it {does} by one metric, and --metric has "
            f"{len(config.metrics)}. {kind.capitalize()}s that take several objectives: {', '.join(able)}"
        )
    refuse(faults)


def _check_pair(name: str, searcher: type[SearchMethod], scheduler: str) -> None:
    if scheduler in searcher.SCHEDULERS or "." in scheduler:
        return
    known = plugins.choices("searcher")
    pairs = [f"\n  {name} with {', '.join(plugins.find('searcher', name).SCHEDULERS)}" for name in known]
    raise UserError(
        f"--searcher {name} does not work with --scheduler {scheduler}."
        f"{nearest(scheduler, searcher.SCHEDULERS)} "
        f"Pairs of searcher and scheduler that work:{''.join(pairs)}"
    )


def _num_trials(config: SweepConfig, points: float) -> int:
    """The trials that were asked for, as far as there are points for them."""
    if config.resume is not None and config.num_trials is not None:
        return config.num_trials  # the searcher finds out when a space has no more points
    default = math.inf if config.searcher == "grid" else DEFAULT_TRIALS
    return int(min(default if config.num_trials is None else config.num_trials, points))
