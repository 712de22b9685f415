"""Which sweeps lie in a folder, and what a folder is that is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweeps.common import params_file
from sweeps.common.formatting import place
from sweeps.common.project import JOURNAL as JOURNAL
from sweeps.common.project import SETTINGS_FILE
from sweeps.common.yaml_values import closest

RESULTS = "results"
MOST_LISTED = 8
"""Sweeps named to who gives a folder that is none: the last, by their names the newest."""


def no_sweep(folder: Path) -> str | None:
    """What is there in place of a sweep, and which one may be meant; None where there is a record."""
    if (folder / JOURNAL).is_file():
        return None
    if not folder.exists():
        what = "no such folder"
    elif not folder.is_dir():
        what = "not a folder"
    elif (folder / SETTINGS_FILE).is_file():
        what = "a run of sweeps.fit, no sweep"
    elif within := sweeps_in(folder):
        return f"{place(folder)}: no sweep, but a folder of sweeps: {_listed(within)}"
    else:
        what = f"no sweep here: {JOURNAL} is missing"
    beside = {Path(path).name: path for path in sweeps_in(folder.parent) or sweeps_in(Path(RESULTS))}
    if (near := closest(folder.name, beside)) is not None:
        return f"{place(folder)}: {what}. Did you mean '{beside[near]}'?"
    known = f" Sweeps there are: {_listed(list(beside.values()))}" if beside else ""
    return f"{place(folder)}: {what}.{known}"


def sweeps_in(folder: Path) -> list[str]:
    """Folders of sweeps there, as they are typed."""
    return sorted(str(path.parent) for path in folder.glob(f"[!.]*/{JOURNAL}"))


def _listed(known: Sequence[str]) -> str:
    return ", ".join([*(["..."] if len(known) > MOST_LISTED else []), *known[-MOST_LISTED:]])


CONFIG_FILE = "sweep.yaml"
"""In the folder of a sweep: its settings."""


FOLDER = "best"


PARAMS_FILE, METRICS_FILE = params_file.FILE, "metrics.json"
