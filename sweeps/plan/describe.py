"""The plan as text, printed before anything starts."""

from __future__ import annotations

import dataclasses
import textwrap

from sweeps.common.formatting import count, pairs, shown_path
from sweeps.common.param_types import shown
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import disk
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement, session
from sweeps.space.point import Point
from sweeps.storage import datasets


def describe(plan: Plan) -> str:
    """The plan in two columns, a title and its text."""
    config = plan.config.changed(num_trials=int(min(plan.config.num_trials or 0, plan.space.size())))
    plan = dataclasses.replace(plan, config=config)  # a resume may ask for more trials than there are points
    names = ", ".join(config.trainables)
    lines = [
        ("sweep", f"{config.name}: {names}, {config.objectives}, seed {config.seed}"),
        *(plan.lineage.lines if plan.lineage else ()),
        *[line for model in plan.models for line in _model(model, alone=len(plan.models) == 1)],
        *(("try" if not number else "", _words(point)) for number, point in enumerate(plan.tries)),
        ("searcher", str(config.searcher)),
        *_wrapped("scheduler", plan.scheduler.describe(config)),
        ("trials", f"{config.num_trials}, each of at most {count(config.max_epochs, 'epoch')}"),
        ("epochs", _epochs(plan)),
        *(_wrapped("confirm", describe_confirmation(config)) if config.confirm else []),
        ("resources", _resources(config)),
        ("folder", shown_path(plan.folder)),
        *(_wrapped("disk", _disk(plan)) if config.resume is None else []),
        *([("storage", f"checkpoints in {plan.storage.where}")] if config.storage else []),
    ]
    return "\n".join(f"{title:<10} {text}" for title, text in lines)


def _words(point: Point) -> str:
    """`lr=0.1, hidden=32`, of a trial that the user has chosen."""
    return pairs(point.params)


def _wrapped(title: str, text: str, indent: str = "") -> list[tuple[str, str]]:
    # 80 columns with the title
    parts = textwrap.wrap(text, 69, subsequent_indent=indent, break_on_hyphens=False)
    return [("" if number else title, part) for number, part in enumerate(parts)]


def _wrapped_range(name: str, words: str, indent: int) -> list[tuple[str, str]]:
    """A hyperparameter and its range, whose further lines are below its first one; `indent` is that of the
    column of ranges."""
    lines = textwrap.wrap(words, 69 - indent, break_long_words=False, break_on_hyphens=False)
    return [
        ("", f"{'' if number else f'  {name}':<{indent - 1}} {part}") for number, part in enumerate(lines)
    ]


def _epochs(plan: Plan) -> str:
    """Epochs of all trials together; what pruning saves depends on the scores, hence an estimate."""
    most, expected = (plan.config.num_trials or 0) * plan.config.max_epochs, plan.expected_epochs
    if expected >= most:
        return f"{most:,}"
    return f"at most {most:,}; about {expected:,} expected with pruning"


def _disk(plan: Plan) -> str:
    return disk.describe(plan, plan.lineage.checkpoint_bytes if plan.lineage else 0)


def _model(model: Model, alone: bool) -> list[tuple[str, str]]:
    """A model with its data and its space."""
    size, hyperparameters = model.space.size(), model.space.describe()
    points = "" if size == float("inf") else f", {int(size):,} points"
    data = [model.data, datasets.describe(model.prepared) if model.prepared else ""]
    indent = min(max(17, *(len(name) + 4 for name in hyperparameters)), 40)
    return [
        *([] if alone else [("model", model.name)]),
        *zip(("data", ""), filter(None, data), strict=False),
        *[line for title, text in model.trainable.notes() for line in _wrapped(title, text, "  ")],
        ("space", f"{model.space_name}: {count(len(hyperparameters), 'hyperparameter')}{points}"),
        *[line for name, words in hyperparameters.items() for line in _wrapped_range(name, words, indent)],
        ("fixed", _fixed(model)),
    ]


def _fixed(model: Model) -> str:
    """The fixed hyperparameters; of a project with its own settings, those that differ from these."""
    fixed, rest = dict(model.space.fixed), model.trainable.rest
    if rest:
        defaults = {each.name: each.default for each in dataclasses.fields(model.trainable.params_class)}
        fixed = {name: value for name, value in fixed.items() if value != defaults[name]}
    return (
        ", ".join(filter(None, [*(f"{name}={shown(value)}" for name, value in fixed.items()), rest]))
        or "none"
    )


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
    if config.objectives.are_several:
        seeds = count(config.confirm, "new seed")
        text = f"train each trial of the front again with {seeds}, {config.max_epochs} epochs each"
        return text + _in_budget(config)
    top, epochs = min(config.confirm_top, config.num_trials or config.confirm_top), config.max_epochs
    runs = top * config.confirm
    which = f"the best {count(top, 'trial')}" if top > 1 else "the best trial"
    each = " each" if top > 1 else ""
    text = (
        f"train {which} again with {count(config.confirm, 'new seed')}{each}: "
        f"{runs} x {epochs} = {runs * epochs:,} more epochs"
    )
    return text + _in_budget(config)


def _in_budget(config: SweepConfig) -> str:
    budget = config.time_budget_hours
    return "" if budget is None else f"; --time-budget-hours {budget:g} includes them"
