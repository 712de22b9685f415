"""Files of settings: what may stand in one, and the one of a sweep to go on with."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sweeps.common.cli.parser import Fault, typed
from sweeps.common.errors import UserError
from sweeps.common.formatting import place, short
from sweeps.common.yaml_values import load_yaml, nearest
from sweeps.config.sweep_config import OF_ONE_RUN, SweepConfig, flag
from sweeps.config.sweep_folder import CONFIG_FILE, JOURNAL, no_sweep

PAIRS = ("params", "ranges")
"""Settings that are `name: value` lines of hyperparameters."""


def read_yaml(path: str, name: str) -> dict[str, Any]:
    """The settings in a file, in their types.

    Args:
        path: of the file.
        name: flag that named it, for messages.

    Raises:
        UserError: it is no such file, or settings in it are wrong, a line each.
    """
    try:
        content = load_yaml(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name} {path}: cannot be read ({reason})") from None
    except yaml.YAMLError as error:
        raise UserError(f"{name} {path}: not YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise UserError(f"{name} {path}: must hold settings as 'key: value' lines")
    settings = SweepConfig.settings()
    # Files of older versions hold `dry_run`.
    of_one_run = OF_ONE_RUN - {"dry_run"}
    faults: list[str] = []
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key not in settings:
            faults.append(f"{path}: {key}: no such key.{nearest(str(key), settings)}")
        elif key in of_one_run:
            faults.append(f"{path}: {key}: of one call: give {flag(key)}")
        elif key in PAIRS:
            faults += _faults_of_hyperparameters(path, key, value)
            values[key] = value
        else:
            values[key] = typed(f"{path}: {key}", settings[key].kind, value)
            faults += [values[key]] if isinstance(values[key], Fault) else []
    if faults and name == "--resume":
        faults.append("A newer version of this program may have written that: upgrade this one.")
    if faults:
        raise UserError("\n".join(faults))
    return values


def _faults_of_hyperparameters(path: str, key: str, given: object) -> list[str]:
    if not isinstance(given, Mapping):
        return [f"{path}: {key} {given}: must be 'name: value' lines"]
    return [
        f"{path}: {key} {name}: {value}: must be a number, true, false or text"
        for name, value in given.items()
        for one in (value if key == "ranges" and isinstance(value, list) else [value])
        if not isinstance(one, bool | int | float | str)
    ]


SEEDS = 2**32
NEVER = ("trainable", "metric", "mode", "scheduler", "max_epochs", "grace_epochs", "reduction_factor")
"""What the scores and rungs of a record mean: not even --force changes it."""


def refuse_other(now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """A sweep that goes on must be the one that began.

    Raises:
        UserError: it is not, and by which settings.
    """
    faults = [
        f"{flag(name)} {short(now[name])}: the sweep began with {short(before[name])}"
        for name in NEVER
        if name in before and short(now[name]) != short(before[name])  # `[a]` in a file is `a`
    ]
    if faults:
        reason = "Its trials were scored and pruned by that, and can't be judged anew: start a new sweep."
        raise UserError("\n".join([*faults, reason]))
    workers, then = now["workers_per_trial"], before.get("workers_per_trial", 1)
    if workers != then:
        raise UserError(
            f"--workers-per-trial {workers}: the sweep began with {then}. Its checkpoints are of so many, "
            "each with its own part of them: start a new sweep, with --refine to know these trials."
        )


def of_its_own(path: str, contents: Sequence[Mapping[str, Any]], results_dir: str | None) -> dict[str, Any]:
    """What a sweep that refines others has of its own: name, folder, seed; no grid.

    Args:
        path: sweep.yaml of the first of them.
        contents: settings of all.
        results_dir: the folder that it shall lie in; None: beside the first of them.
    """
    folder = Path(path).resolve().parent
    where = folder.parent if results_dir is None else Path(results_dir).expanduser()
    stem = re.sub(r"-refined(-\d+)?$", "", folder.name)
    names = ((n, f"{stem}-refined{'' if n == 1 else f'-{n}'}") for n in itertools.count(1))
    number, name = next((n, name) for n, name in names if not (where / name).exists())
    seed = (max(int(content.get("seed", 0)) for content in contents) + number) % SEEDS
    searcher = {"searcher": "tpe"} if contents[0].get("searcher") == "grid" else {}
    return {"name": name, "results_dir": str(place(where)), "seed": seed, **searcher}


def settings_of_sweep(sweep: str, flag: str) -> str:
    """The sweep.yaml of a sweep to go on with, or to learn from."""
    folder = Path(sweep).expanduser()
    settings, is_recorded = folder / CONFIG_FILE, (folder / JOURNAL).is_file()
    if settings.is_file() and is_recorded:
        return str(settings)
    if is_recorded:
        what = f"its {CONFIG_FILE} is missing; write it anew: its settings are in {JOURNAL}, `identity`"
    elif settings.is_file():
        what = f"{JOURNAL} is missing, so nothing is known of its trials; begin it anew: --config {settings}"
    else:
        raise UserError(f"{flag} {no_sweep(folder)}")
    raise UserError(f"{flag} {sweep}: {what}")
