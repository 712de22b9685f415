"""What the results of a sweep depend on, kept in its record, so that a resume sees what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sweeps.cluster import package_versions
from sweeps.common import source_files
from sweeps.common.formatting import short
from sweeps.config import plugins
from sweeps.config.sweep_config import OF_ONE_RUN, SweepConfig, flag
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.record.sweep_info import Identity
from sweeps.storage import datasets

DECIDING = ("sweeps/searchers/", "sweeps/schedulers/", "sweeps/search/", "sweeps/space/")
"""Of this program, what a proposal or a decision depends on: a plug-in imports all the rest, too."""

WITHOUT_EFFECT = frozenset(
    {
        *("name", "results_dir", "address", "dashboard", "ray_dashboard", "loggers"),
        *("min_free_gb", "keep_checkpoints", "checkpoint_epochs", "notify_command"),
        *("confirm", "confirm_top", "refine", "refine_keep"),
        *("data", "memory_gb_per_trial", "gpu_memory_gb_per_trial", "trials_per_gpu"),
    }
)
"""Where a sweep runs, what it needs and keeps there, what its ranges and earlier trials were made of, and
what comes after the search: its results do not depend on it."""
SCORING = ("metric", "mode", "precision", "strategy", "workers_per_trial", "compile", "max_epochs")
"""Settings that decide what a trial scores at an epoch; a learning rate may depend on the last one."""
NOT_SCORING = ("ray", "optuna")
"""Packages that no score depends on, of those whose versions are noted."""


def identity(plan: Plan) -> Identity:
    """What `plan` would train with, here and now."""
    return {
        "settings": settings(plan.config),
        "data": {
            f"{what}{_of(plan, model)}": words
            for model in plan.models
            for what, words in {"data": model.data, **datasets.keys(model.prepared)}.items()
        },
        "space": {
            f"{name}{_of(plan, model)}": words
            for model in plan.models
            for name, words in model.space.exactly().items()
        },
        "code": _code(plan),
        "versions": package_versions.versions(getattr(plan.searcher, "PACKAGES", ())),
    }


def _of(plan: Plan, model: Model) -> str:
    return "" if len(plan.models) == 1 else f" of {model.name}"


def settings(config: SweepConfig) -> dict[str, Any]:
    """The settings that results depend on."""
    # Records of older versions do not have it, and were made by one.
    alone = {"workers_per_trial"} if config.workers_per_trial == 1 else set()
    without = OF_ONE_RUN | WITHOUT_EFFECT | alone
    return {name: value for name, value in config.flat().items() if name not in without}


def changes(before: Identity, now: Identity, but: frozenset[str] = frozenset()) -> list[str]:
    """What differs, a line each; settings in `but` may."""
    lines = []
    for part, titled in (
        ("settings", flag),
        ("data", str),
        ("space", "hyperparameter {}".format),
        ("versions", str),
    ):
        for name, old, new in _differing(before[part], now[part]):
            if not (part == "settings" and name in but):
                lines.append(f"{titled(name)}: {_shown(old)} -> {_shown(new)}")
    other_searcher = before["settings"].get("searcher") != now["settings"].get("searcher")
    for name, _, _ in _differing(before["code"], now["code"]):
        if not (other_searcher and name.startswith("sweeps/searchers/")):
            lines.append(f"{name}: its code")
    return lines


def score_changes(before: Identity, plan: Plan) -> list[str]:
    """What differs, a line each, of all that the score of a trial depends on beside its params and seed."""
    now = identity(plan)
    training = {name for model in plan.models for name in source_files.files(model.module)}
    training |= set(source_files.files_of_training())
    kept = {
        "settings": set(SCORING),
        "data": set(now["data"]),
        "versions": {"python", *package_versions.PACKAGES} - set(NOT_SCORING),
        "code": training,
    }
    old, new = (
        {part: {name: found[part].get(name) for name in names} for part, names in kept.items()}
        for found in (before, now)
    )
    return changes({**old, "space": {}}, {**new, "space": {}})


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = dict.fromkeys([*before, *now])
    return [(n, before.get(n), now.get(n)) for n in names if before.get(n) != now.get(n)]


def _shown(value: Any) -> str:
    return "not set" if value is None else short(value)


def _code(plan: Plan) -> dict[str, str]:
    """File to checksum: what trains, proposes and prunes, and what the user's plug-ins import of their
    project."""
    files = source_files.files_of_training()
    for module in (plan.searcher, plan.scheduler):
        is_ours = module.__name__.startswith("sweeps.")
        found = source_files.files(module)
        files |= {name: path for name, path in found.items() if not is_ours or name.startswith(DECIDING)}
    for model in plan.models:
        files |= source_files.files(model.module)
        if model.space.has_code:
            files |= source_files.files(plugins.find("search_space", model.space_name))
    return {name: _checksum(path.read_bytes()) for name, path in files.items()}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
