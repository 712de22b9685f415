"""The plan: all that a sweep will do, checked and printed before any resource is taken."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sweeps import confirm, models
from sweeps.cluster import placement, session
from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, count, place, size
from sweeps.common.yaml_values import nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig, one_or_several
from sweeps.models import Model
from sweeps.space.point import Space
from sweeps.storage import datasets, url
from sweeps.storage import open as storage_open
from sweeps.storage.base import Storage

if TYPE_CHECKING:
    from sweeps.lineage import Lineage
    from sweeps.record.record import Record
    from sweeps.record.trials import TrialRow, Waits

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
    lineage: Lineage | None = None
    """Of a new sweep that refines others: what it takes over from them."""

    @cached_property
    def storage(self) -> Storage:
        """Where its checkpoints go."""
        return storage_open.of(self.config.storage, self.folder)

    @property
    def expected_epochs(self) -> int:
        """That all trials train together, as far as the scheduler can tell."""
        if hasattr(self.scheduler, "expected_epochs"):
            return int(self.scheduler.expected_epochs(self.config))
        return (self.config.num_trials or 0) * self.config.max_epochs

    def waits(self, record: Record) -> Waits | None:
        """Which trials are paused now; None with a scheduler that pauses none."""
        if not hasattr(self.scheduler, "waits_at"):
            return None

        def waits(trial: TrialRow) -> bool:
            last = max(trial.epochs, default=0)
            return trial.confirms is None and bool(
                self.scheduler.waits_at(self.config, record, trial.number, last)
            )

        return waits


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
    from sweeps import lineage, refine  # they know plans

    parents = lineage.look(config)
    narrowed = refine.narrowed(config, parents, searcher)
    plan = _plan(narrowed.config, searcher, scheduler)
    taken = lineage.of(plan, parents, narrowed.ignored, narrowed.lines)
    return dataclasses.replace(plan, lineage=taken)


def _plan(config: SweepConfig, searcher: ModuleType, scheduler: ModuleType) -> Plan:
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
        storage=url.settled(config.storage),
    )
    folder = Path(config.results_dir).expanduser().resolve() / str(config.name)
    _check_place(config, folder)
    if folder.exists() and config.resume is None:
        raise UserError(f"--name {config.name}: {folder} exists already; give another name")
    if config.address is None:
        placement.slots(config, [session.this_pc()])
        _check_precision(config)
    return Plan(config, found, searcher, scheduler, space, folder)


def describe(plan: Plan) -> str:
    """The plan in lines of words and numbers with units."""
    config = plan.config
    epochs_to_end = (config.num_trials or 0) * config.max_epochs
    names = ", ".join(config.trainables)
    lines = [
        ("sweep", f"{config.name}: {names}, {config.metric} ({config.mode}), seed {config.seed}"),
        *(plan.lineage.lines if plan.lineage else ()),
        *[line for model in plan.models for line in _model(model, alone=len(plan.models) == 1)],
        ("searcher", config.searcher),
        ("scheduler", plan.scheduler.describe(config)),
        ("trials", f"{config.num_trials}, of at most {config.max_epochs} epochs"),
        ("epochs", f"about {plan.expected_epochs:,} expected, {epochs_to_end:,} without pruning"),
        *([("confirm", confirm.describe(config))] if config.confirm else []),
        ("resources", _resources(config)),
        ("folder", place(plan.folder)),
        *([("storage", f"checkpoints in {plan.storage.where}")] if config.storage else []),
    ]
    return "\n".join(f"{title:<10} {text}" for title, text in lines)


def _check_precision(config: SweepConfig) -> None:
    if config.precision == "16-mixed" and not placement.gpus_per_trial(config, [session.this_pc()]):
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


def _model(model: Model, alone: bool) -> list[tuple[str, str]]:
    """What is trained and tried of a model."""
    size, knobs = model.space.size(), model.space.describe()
    points = "" if size == float("inf") else f", {int(size):,} points"
    return [
        *([] if alone else [("model", model.name)]),
        *_data(model),
        ("space", f"{model.space_name}: {count(len(knobs), 'knob')}{points}"),
        *[("", f"  {name:<14} {words}") for name, words in knobs.items()],
        ("fixed", ", ".join(f"{name}={value}" for name, value in model.space.fixed.items()) or "nothing"),
    ]


def _data(model: Model) -> list[tuple[str, str]]:
    lines = [line for line in (model.data, datasets.describe(model) if model.prepared else "") if line]
    return list(zip(["data", ""], lines, strict=False))


def _name(found: Sequence[Model]) -> str:
    """A sweep without one is called after its models and the time of day."""
    named = "-".join(model.name.split(".")[-1] for model in found)
    return f"{named[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"


def _resources(config: SweepConfig) -> str:
    cpus, workers = count(config.cpus_per_trial, "CPU"), config.workers_per_trial
    of_workers = "" if workers == 1 else f"{workers} workers, each "
    later = ""
    if config.trials_per_gpu == "auto":
        later = "; as many on each GPU as it holds, once the first have shown what they take"
    if config.address is not None:
        gpus = "" if config.gpus_per_trial is None else f" and {count(config.gpus_per_trial, 'GPU')}"
        return f"{of_workers}{cpus}{gpus} a trial, on the Ray cluster at {config.address}{later}"
    here = session.this_pc()
    return (
        f"{count(placement.slots(config, [here]), 'trial')} at a time on this PC "
        f"({count(here.cpus, 'CPU')}, {count(here.gpus, 'GPU')}), "
        f"each {of_workers}{cpus} and {count(placement.gpus_per_trial(config, [here]), 'GPU')}{later}"
    )
