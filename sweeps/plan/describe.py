"""The plan as text, printed before anything starts."""

from __future__ import annotations

import dataclasses
import math
import textwrap

from sweeps.common import atomic_io
from sweeps.common.formatting import bytes_of, count, pairs, shown_path, size
from sweeps.common.param_types import shown
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds.registry import shown_name
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement, session
from sweeps.record import limits
from sweeps.search import prior
from sweeps.space import composite
from sweeps.space.optuna_space import Encoding
from sweeps.storage import datasets, retention
from sweeps.training.checkpoints import checkpoint_store


def describe(plan: Plan) -> str:
    """The plan in two columns, a title and its text."""
    points = math.inf if plan.config.resume and plan.config.ranges else plan.points  # they may have changed
    config = plan.config.changed(num_trials=int(min(plan.config.num_trials or 0, points)))
    plan = dataclasses.replace(plan, config=config)  # a resume may ask for more trials than there are points
    names = ", ".join(map(shown_name, config.trainables))
    lines = [
        ("sweep", f"{config.name}: {names}, {config.objectives}, seed {config.seed}"),
        *(plan.lineage.lines if plan.lineage else ()),
        *[line for model in plan.models for line in _model(model, alone=len(plan.models) == 1)],
        *(_baselines(plan) if config.resume is None else []),
        *(("try" if not number else "", pairs(point.params)) for number, point in enumerate(plan.tries)),
        *(_wrapped("prior", _prior(plan)) if config.prior else []),
        *(line for why in plan.prior_left_out for line in _wrapped("prior", f"left out: {why}")),
        ("searcher", str(config.searcher)),
        *_wrapped("scheduler", plan.scheduler.describe(config)),
        ("trials", f"{config.num_trials}, each of at most {count(config.max_epochs, 'epoch')}"),
        ("epochs", _epochs(plan)),
        *(_wrapped("an epoch", words) if (words := config.fit.epoch_in_words) else []),
        *(_wrapped("ends", f"{ends}, or after the last trial") if (ends := limits.described(config)) else []),
        *(_wrapped("confirm", describe_confirmation(config)) if config.confirm else []),
        ("resources", _resources(config)),
        ("folder", shown_path(plan.folder)),
        *(_wrapped("disk", describe_disk(plan)) if config.resume is None and plan.saves else []),
        *([("storage", f"checkpoints in {plan.storage.where}")] if config.storage and plan.saves else []),
    ]
    return "\n".join(f"{title:<10} {text}" for title, text in lines)


def _wrapped(title: str, text: str, indent: int = 0, name: str = "") -> list[tuple[str, str]]:
    """The lines of a text in 80 columns with the title; the first one begins with a name."""
    parts = textwrap.wrap(
        text,
        69,
        initial_indent=f"{f'  {name}':<{indent - 1}} " if name else "",
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [("" if number else title, part) for number, part in enumerate(parts)]


def _baselines(plan: Plan) -> list[tuple[str, str]]:
    """The defaults that are tried first, or why there are none."""
    lines, trial = list[str](), 0
    for each in plan.baselines:
        of = f"{shown_name(each.trainable)} " if len(plan.models) > 1 else ""
        if each.point is None:
            lines.append(f"{of}not tried: {each.why_not}")
            continue
        named = ", ".join(each.outside)
        beyond = f" ({named}: outside the space, and tried all the same)" if named else ""
        lines.append(f"trial {trial}: {of}{pairs(each.point.params)}{beyond}")
        trial += 1
    titles = ["defaults", *[""] * len(lines)]
    return [line for title, text in zip(titles, lines, strict=False) for line in _wrapped(title, text)]


def _prior(plan: Plan) -> str:
    near = prior.described(plan.config.prior, Encoding.from_space(plan.space))
    return f"{near}. Proposals begin there; the more trials there are, the less it counts"


def _epochs(plan: Plan) -> str:
    """Epochs of all trials together; what pruning saves depends on the scores, hence an estimate."""
    most = (plan.config.num_trials or 0) * plan.config.max_epochs
    expected = plan.scheduler.expected_epochs(plan.config)
    if expected >= most:
        return f"{most:,}"
    return f"at most {most:,}; about {expected:,} expected with pruning"


def _model(model: Model, alone: bool) -> list[tuple[str, str]]:
    number, hyperparameters = model.space.size(), model.space.describe()
    points = "" if number == float("inf") else f", {int(number):,} points"
    space_name = shown_name(model.space_name)
    data = [model.data, datasets.describe(model.prepared) if model.prepared else ""]
    indent = min(max(17, *(len(name) + 4 for name in hyperparameters)), 40)
    return [
        *([] if alone else [("model", shown_name(model.name))]),
        *zip(("data", ""), filter(None, data), strict=False),
        *[line for title, text in model.trainable.notes() for line in _wrapped(title, text, 2)],
        ("space", f"{space_name}: {count(len(hyperparameters), 'hyperparameter')}{points}"),
        *[line for name, words in hyperparameters.items() for line in _wrapped("", words, indent, name)],
        ("fixed", _fixed(model)),
    ]


def _fixed(model: Model) -> str:
    """The fixed hyperparameters; of a project with its own settings, those that differ from these."""
    fixed, rest = dict(model.space.fixed), model.trainable.rest
    if rest:
        defaults = {each.name: each.default for each in dataclasses.fields(model.trainable.params_class)}
        fixed = {name: value for name, value in fixed.items() if value != defaults[name]}
    return (
        ", ".join(filter(None, [*(_with_condition(model, *each) for each in fixed.items()), rest])) or "none"
    )


def _with_condition(model: Model, name: str, value: object) -> str:
    """A fixed hyperparameter, with the options that have it where others lack it."""
    options = model.options()
    having = [each for each in model.combinations() if name in model.trainable.hyperparameters_with(each)]
    return " ".join(filter(None, [f"{name}={shown(value)}", composite.condition(options, having)]))


def _resources(config: SweepConfig) -> str:
    later = ""
    if config.trials_per_gpu == "auto":
        later = "; after the first trials, as many per GPU as its memory holds"
    if config.address is not None:
        each = _describe_trial(config, config.gpus_per_trial)
        return f"{each} per trial, on the Ray cluster at {config.address}{later}"
    here = session.this_pc()
    return (
        f"{count(placement.slots(config, [here]), 'trial')} at a time on this PC "
        f"({count(here.cpus, 'CPU')}, {count(here.gpus, 'GPU')}), "
        f"each with {_describe_trial(config, placement.gpus_per_trial(config, [here]))}{later}"
    )


def _describe_trial(config: SweepConfig, gpus: float | None) -> str:
    """`1 CPU and 1 GPU`, or `2 workers (1 CPU and 1 GPU per worker)`."""
    each = count(config.cpus_per_trial, "CPU") + ("" if gpus is None else f" and {count(gpus, 'GPU')}")
    workers = config.workers_per_trial
    return each if workers == 1 else f"{workers} workers ({each} per worker)"


def describe_confirmation(config: SweepConfig) -> str:
    """The reruns and their cost, for the plan."""
    budget, epochs = config.time_budget_hours, config.max_epochs
    in_budget = "" if budget is None else f"; --time-budget-hours {budget:g} includes them"
    seeds = count(config.confirm, "new seed")
    if config.objectives.are_several:
        return f"train each trial of the front again with {seeds}, {epochs} epochs each{in_budget}"
    top = min(config.confirm_top, config.num_trials or config.confirm_top)
    runs = top * config.confirm
    again = (
        f"the best {count(top, 'trial')} again with {seeds} each"
        if top > 1
        else f"the best trial again with {seeds}"
    )
    return f"train {again}: {runs} x {epochs} = {runs * epochs:,} more epochs{in_budget}"


def describe_disk(plan: Plan, checkpoint_bytes: int = 0) -> str:
    """What the checkpoints of a sweep will take.

    Args:
        checkpoint_bytes: size of the largest one; 0: it is not known yet.
    """
    config = plan.config
    keep, trials = config.keep_checkpoints, config.num_trials or 0
    running = placement.slots(config, [session.this_pc()]) if config.address is None else 0
    running = min(running or config.max_concurrent or 0, trials)
    waiting = min(plan.scheduler.most_waiting(config, running), trials - running)
    # All may be on the front, whose weights are kept; best/ holds weights, which are a part of a checkpoint.
    best = trials if config.objectives.are_several else 1
    reruns = 0 if not config.confirm else best if best > 1 else config.confirm_top
    # Each trial that trains may be writing one more.
    others = best + running * (checkpoint_store.KEPT + 1) + waiting * checkpoint_store.KEPT + reruns
    at_end = best + min(reruns, best)
    each = ""
    if config.address is not None and config.max_concurrent is None:
        each = f" (and {checkpoint_store.KEPT + 1} more checkpoints for each trial that trains)"
    failed = f", and up to {min(retention.KEPT_OF_FAILED, trials)} of trials that fail"
    kept = trials if isinstance(keep, str) or best > 1 else min(keep, trials)
    if not checkpoint_bytes:
        unknown = f"{failed}; the size of one is not known yet"
        if isinstance(keep, str):
            return f"{keep} of kept checkpoints, and at most {others:,} others while it runs{each}{unknown}"
        most = count(kept + others, "checkpoint")
        return f"at most {most} while it runs{each}, {kept + at_end:,} when it has ended{unknown}"
    kept_bytes = float(kept * checkpoint_bytes)
    if isinstance(keep, str):  # the best one is always kept
        kept_bytes = min(max(bytes_of(keep) or 0, checkpoint_bytes), kept_bytes)
    most_bytes, few = kept_bytes + others * checkpoint_bytes, ""
    if config.storage is None and (free := atomic_io.free_bytes(plan.folder)) < most_bytes:
        few = f"; the disk has {size(free)} free"
    end = size(kept_bytes + at_end * checkpoint_bytes)
    return (
        f"at most {size(most_bytes)} while it runs{each}, {end} when it has ended, "
        f"with checkpoints of {size(checkpoint_bytes)}{failed}{few}"
    )
