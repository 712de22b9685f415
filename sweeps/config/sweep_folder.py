"""The folder of a sweep: names of its files, the error for one that is none, and the commands that go on."""

from __future__ import annotations

from pathlib import Path

from sweeps.common import local_dirs, project
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, plain_name, shown_path
from sweeps.common.project import FIT_FILE, LADDER_FILE
from sweeps.common.project import JOURNAL as JOURNAL
from sweeps.common.project import RESULTS as RESULTS
from sweeps.common.yaml_values import closest
from sweeps.kinds import params_file

SWEEP_HELP = f"Name of a sweep in {RESULTS}/, or its folder."
REPORT_FILE = "report.html"
SWEEP_FILE = "sweep.yaml"
"""The settings of a sweep."""
BEST_FOLDER = params_file.BEST
LOGS_FOLDER = "logs"
PARAMS_FILE, METRICS_FILE = params_file.FILE, "metrics.json"
FRONT_FOLDER = "trial_{:04d}"
"""In `best/`, with several objectives: the folder of a trial of the front other than the knee."""


def sweep_named(given: str) -> Path:
    """The folder that was given by its path, or by the name of a sweep in results/."""
    return project.in_results(given, JOURNAL)


SQLITE, STUDY = "sqlite:///", "::"
"""Begins the name of a database of Optuna's, and stands before that of a study in it."""
EPOCHS_SUFFIX = "-epochs.csv"
"""Ends the name of a table of epochs, beside the table of trials."""
FOREIGN_FILES = (".csv", ".tsv", ".db", ".sqlite", ".sqlite3", ".journal", ".log")


def is_foreign(given: str) -> bool:
    """Whether a file of another program was given, in place of a sweep to refine."""
    path = Path(given.partition(STUDY)[0]).expanduser()
    try:
        is_file = (path.suffix in FOREIGN_FILES or path.is_file()) and not path.is_dir()
    except OSError:  # this user may not look there, say: `sweep_named` tells why
        is_file = False
    return given.startswith(SQLITE) or (is_file and path.name != JOURNAL)


def newest_sweep() -> Path:
    """The sweep in results/ that has changed last.

    Raises:
        UserError: there is none.
    """
    if (found := project.newest_in_results(JOURNAL)) is None:
        raise UserError(f"no sweep in {RESULTS}/ here: give the name or the folder of a sweep")
    return found


def no_sweep(folder: Path) -> str | None:
    """What a folder is, and the nearest sweep; None where it is a sweep."""
    if project.is_closed(folder / JOURNAL):
        return f"{shown_path(folder)}: it can't be read (Permission denied): only its owner may open it"
    if (folder / JOURNAL).is_file():
        return None
    if not folder.exists():
        what = "no such folder" if len(folder.parts) > 1 else "no sweep of this name, no folder"
    elif not folder.is_dir():
        what = "not a folder"
    elif run := single_run(folder):
        what = f"{run}, not a sweep"
    elif within := sweeps_in(folder):
        return f"{shown_path(folder)}: a folder of sweeps, not a sweep. Give one of {_listed(within)}"
    else:
        what = f"not a sweep: {JOURNAL} is missing"
    beside = {path.name: path for path in sweeps_in(folder.parent) or sweeps_in(Path(RESULTS))}
    hint = f" Existing sweeps: {_listed([*beside.values()])}" if beside else ""
    if (near := closest(folder.name, beside)) is not None:
        hint = f" Did you mean '{beside[near]}'?"
    return f"{shown_path(folder)}: {what}.{hint}"


def single_run(folder: Path) -> str:
    """What a folder of one training is that no sweep has started; "" of any other."""
    files = {FIT_FILE: "a single run of sweeps fit", LADDER_FILE: "a ladder of sweeps ladder"}
    if project.is_closed(folder / JOURNAL):
        return ""
    return next((what for file, what in files.items() if (folder / file).is_file()), "")


def sweeps_in(folder: Path) -> list[Path]:
    """The sweep that a folder is, or the sweeps in it, by name."""
    if project.is_closed(folder / JOURNAL):
        return []
    if (folder / JOURNAL).is_file():
        return [folder]
    return sorted(path.parent for path in folder.glob(f"[!.]*/{JOURNAL}"))


def _listed(known: list[Path]) -> str:
    """The last by name, which are the newest."""
    shown = [str(path) for path in known[-8:]]
    more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    return ", ".join(shown) + more


def resume_command(folder: Path, *flags: str) -> str:
    """To resume a sweep, with more flags."""
    return command("run", "--resume", shown_path(folder.resolve()), *local_dirs.typed_again(), *flags)


def control_command(folder: Path, *words: str) -> str:
    """To steer a sweep that runs."""
    return command("control", shown_path(folder), *words)


def repeat_command(folder: Path, name: str) -> str:
    """To begin a new sweep with the same settings."""
    again = f"{plain_name(name, 80) or 'sweep'}-again"
    words = ("--config", shown_path(folder / SWEEP_FILE), "--name", again)
    return command("run", *words, *local_dirs.typed_again())
