"""What the results of a sweep depend on; its record keeps it, so that a resume finds what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.common.formatting import count, short
from sweeps.config import plugins
from sweeps.config.sweep_config import COMMAND_ONLY, SweepConfig, flag
from sweeps.kinds import source_files
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import environment
from sweeps.record.sweep_info import Identity
from sweeps.storage import datasets
from sweeps.training.config import VALIDATION

DECIDING = ("sweeps/searchers/", "sweeps/schedulers/", "sweeps/search/", "sweeps/space/")
"""The parts of this program that a proposal or a decision depends on; a plug-in imports others too."""

WITHOUT_EFFECT = frozenset(
    {
        *("name", "tags", "results_dir", "address", "dashboard", "ray_dashboard", "loggers"),
        *("min_free_gb", "keep_checkpoints", "checkpoint_epochs", "notify_command", "notify_on"),
        *("stop_grace", "keep_going", "epoch_timeout_minutes", "preflight", "tries", "baseline"),
        *("confirm", "confirm_top", "refine", "refine_keep", "target", "patience", "max_gpu_hours"),
        *("lightning_cli", "cli_config", "hydra", "hydra_overrides", "command"),  # the trainable has them
        *("data", "memory_gb_per_trial", "gpu_memory_gb_per_trial", "trials_per_gpu", "share"),
    }
)
"""Settings that results do not depend on: the place of a sweep, its resources, its logs and checkpoints, the
source of its ranges, and what follows the search. The points that begin it are in its record."""
SCORING = (
    *("metric", "mode", "precision", "strategy", "workers_per_trial", "compile", "max_epochs"),
    *VALIDATION,
)
"""Settings that the score at an epoch depends on; a learning rate may depend on the last epoch."""
PROGRAM = "sweeps/"
"""Begins the names of the files of this program."""
NOT_SCORING = ("ray", "optuna")
"""Packages in the record that no score depends on."""


def identity(plan: Plan) -> Identity:
    """What the results of `plan` depend on, as of now."""
    return {
        "settings": settings(plan.config),
        **data_and_space(plan),
        "code": _code(plan),
        "versions": environment.versions(plan.searcher.PACKAGES),
    }


def data_and_space(plan: Plan) -> Identity:
    """The parts of the identity that say what is tried, and on which data."""
    return {
        "data": {
            f"{what}{of_model(plan, model)}": words
            for model in plan.models
            for what, words in {"data": model.data, **datasets.keys(model.prepared)}.items()
        },
        "space": {
            f"{name}{of_model(plan, model)}": words
            for model in plan.models
            for name, words in model.space.exactly().items()
        },
    }


def of_model(plan: Plan, model: Model) -> str:
    """What follows a name of a model's in an identity, where there are several."""
    return "" if len(plan.models) == 1 else f" of {model.name}"


def settings(config: SweepConfig) -> dict[str, Any]:
    """The settings that results depend on."""
    without = COMMAND_ONLY | WITHOUT_EFFECT
    found = {name: value for name, value in config.flat().items() if name not in without}
    return {name: value for name, value in found.items() if name != "prior" or value}


def changes(before: Identity, now: Identity, but: frozenset[str] = frozenset()) -> list[str]:
    """What differs, a line each, except the settings in `but`."""
    titles: dict[str, Callable[[str], str]] = {"settings": flag, "data": str, "versions": str}
    titles["space"] = "hyperparameter {}".format
    lines = [
        f"{title(name)}: {_shown(old)} -> {_shown(new)}"
        for part, title in titles.items()
        for name, old, new in _differing(before[part], now[part])
        if part != "settings" or name not in but
    ]
    code = _differing(before["code"], now["code"])
    mine = [name for name, _, _ in code if not name.startswith(PROGRAM)]
    lines += [f"{name}: its {'code' if name.endswith('.py') else 'content'}" for name in mine[:5]]
    if rest := mine[5:]:
        lines.append(f"and {count(len(rest), 'more file')}")
    # Another searcher has other files of the program.
    if any(old and new for name, old, new in code if name.startswith(PROGRAM)):
        lines.append("the program sweeps: another version")
    return lines


def score_changes(before: Identity, plan: Plan, but: frozenset[str] = frozenset()) -> list[str]:
    """What differs, a line each, of what a score depends on beside the params and the seed of its trial;
    except the settings in `but`."""
    now = identity(plan)
    training = set[str]()
    for model in plan.models:
        training |= {*source_files.files(model.trainable.sources()), *model.trainable.settings_files()}
    training |= set(source_files.files_of_training())
    kept = {
        "settings": set(SCORING),
        "data": set(now["data"]),
        "versions": {"python", *environment.PACKAGES} - set(NOT_SCORING),
        "code": training,
    }
    old, new = (
        {part: {name: found[part].get(name) for name in sorted(names)} for part, names in kept.items()}
        for found in (before, now)
    )
    return changes({**old, "space": {}}, {**new, "space": {}}, but)


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = dict.fromkeys([*before, *now])
    return [(n, before.get(n), now.get(n)) for n in names if before.get(n) != now.get(n)]


def _shown(value: Any) -> str:
    return "not set" if value is None else short(value)


def _code(plan: Plan) -> dict[str, str]:
    """File to checksum: the code that trains, proposes and prunes, and the project files that the user's
    plug-ins import."""
    files = source_files.files_of_training()
    for kind in ("searcher", "scheduler"):
        module = plugins.module_of(kind, getattr(plan.config, kind))
        is_ours = module.__name__.startswith("sweeps.")
        found = source_files.files([source_files.source_of(module)])
        files |= {name: path for name, path in found.items() if not is_ours or name.startswith(DECIDING)}
    for model in plan.models:
        files |= source_files.files(model.trainable.sources())
        if model.space.has_code:
            files |= source_files.files([plugins.search_space(model.space_name).source])
    contents = {name: path.read_bytes() for name, path in files.items()}
    for model in plan.models:
        texts = model.trainable.settings_files()
        contents |= {name: text.encode() for name, text in texts.items()}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in contents.items()}
