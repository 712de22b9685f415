"""Read files of settings: any for --config, and the one of a sweep to resume or refine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import short, shown_path
from sweeps.common.settings import typed
from sweeps.common.yaml_values import nearest, read_lines
from sweeps.config.sweep_config import COMMAND_ONLY, YAML_KEYS, SweepConfig, flag
from sweeps.config.sweep_folder import JOURNAL, SWEEP_FILE, no_sweep

PAIRS = ("params", "ranges")
"""Settings with a `name: value` line for each hyperparameter."""
POINTS = ("tries",)
"""Settings with a list of such lines."""


def read_yaml(path: str, name: str) -> dict[str, Any]:
    """The settings in a file, in their types.

    Args:
        path: of the file.
        name: the flag, for messages.

    Raises:
        UserError: the file can't be read, or settings in it are wrong, one a line.
    """
    settings = SweepConfig.settings()
    faults: list[str] = []
    values: dict[str, Any] = {}
    named = {typed_as: setting for setting, typed_as in YAML_KEYS.items()}
    for typed_key, value in read_lines(path, f"{name} {path}").items():
        key = named.get(typed_key, typed_key)
        if key not in settings or typed_key in YAML_KEYS:
            known = [*(name for name in settings if name not in YAML_KEYS), *named]
            faults.append(f"{path}: {typed_key}: no such key.{nearest(str(typed_key), known)}")
        elif key in COMMAND_ONLY:
            faults.append(f"{path}: {key}: can't be set in a file: use the flag {flag(key)}")
        elif key in PAIRS:
            faults += _faults_of_lines(path, typed_key, value)
            values[key] = value
        elif key in POINTS:
            points = value if isinstance(value, list) else [value]
            faults += [each for point in points for each in _faults_of_lines(path, key, point)]
            values[key] = points
        else:
            try:
                values[key] = typed(f"{path}: {key}", settings[key].kind, value)
            except UserError as error:
                faults.append(f"{error}{', as in val_acc:max' if key == 'metric' else ''}")
    if faults and name == "--resume":
        faults.append("Another version of sweeps may have made this sweep: to resume it, use that version.")
    refuse(faults)
    return values


def _faults_of_lines(path: str, key: str, given: object) -> list[str]:
    hint = "; the name of a search space is given as search_space" if key == "space" else ""
    is_right = isinstance(given, Mapping)
    return [] if is_right else [f"{path}: {key} {given}: must be 'name: value' lines{hint}"]


SEEDS = 2**32
NEVER_CHANGED = (
    "trainable",
    "metric",
    "mode",
    "constraint",
    "scheduler",
    "max_epochs",
    "grace_epochs",
    "reduction_factor",
)
"""The scores and rungs of a record depend on these: not even --force changes them."""


def refuse_other(now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Compare the settings of a resume with those of the sweep.

    Raises:
        UserError: some of NEVER_CHANGED differ, or the number of workers.
    """
    faults = [
        f"{flag(name)} {short(now[name]) or 'none'}: the sweep has {short(before[name]) or 'none'}"
        for name in NEVER_CHANGED
        if name in before and short(now[name]) != short(before[name])  # `[a]` in a file is `a`
    ]
    if faults:
        reason = "Its trials were scored and pruned with these settings. Start a new sweep to change them."
        raise UserError("\n".join([*faults, reason]))
    workers, then = now["workers_per_trial"], before.get("workers_per_trial", 1)
    if workers != then:
        raise UserError(
            f"--workers-per-trial {workers}: the sweep has {then}, and a checkpoint holds a part for each. "
            "Start a new sweep to change it; `--refine FOLDER` starts one that learns from these trials."
        )


def settings_of_refined(
    path: str, contents: Sequence[Mapping[str, Any]], results_dir: str | None
) -> dict[str, Any]:
    """The settings in which a refined sweep differs from its parents: name, folder, seed, and no grid.

    Args:
        path: sweep.yaml of the first parent.
        contents: settings of all parents.
        results_dir: folder of the new sweep's folder; None: that of the first parent.
    """
    folder = Path(path).resolve().parent
    where = folder.parent if results_dir is None else Path(results_dir).expanduser()
    stem = re.sub(r"-refined(-\d+)?$", "", folder.name)
    names = ((n, f"{stem}-refined{'' if n == 1 else f'-{n}'}") for n in itertools.count(1))
    number, name = next((n, name) for n, name in names if not (where / name).exists())
    seed = (max(int(content.get("seed", 0)) for content in contents) + number) % SEEDS
    searcher = {"searcher": None} if contents[0].get("searcher") == "grid" else {}
    return {"name": name, "results_dir": str(shown_path(where)), "seed": seed, **searcher}


def settings_of_sweep(sweep: str, flag: str) -> str:
    """The sweep.yaml of a sweep to resume or to refine."""
    folder = Path(sweep).expanduser()
    settings, is_recorded = folder / SWEEP_FILE, (folder / JOURNAL).is_file()
    if settings.is_file() and is_recorded:
        return str(settings)
    if is_recorded:
        what = (
            f"{SWEEP_FILE} is missing. Restore it from a copy; most of its settings are in {JOURNAL} under "
            "`identity.settings`"
        )
    elif settings.is_file():
        what = f"{JOURNAL} is missing, so its trials are lost. Start a new sweep: --config {settings}"
    else:
        raise UserError(f"{flag} {no_sweep(folder)}")
    raise UserError(f"{flag} {sweep}: {what}")
