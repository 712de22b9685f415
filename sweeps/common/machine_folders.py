"""Folders that belong to a machine, not to a run: raw data and prepared data.

They travel in the environment, never in a file of settings.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE = "SWEEPS_DATA_DIR", "SWEEPS_PREPARED_DIR"
OF_THE_MACHINE = {"--data-dir": DATA_DIR_VARIABLE, "--prepared-dir": PREPARED_DIR_VARIABLE}
"""Flag to environment variable."""


def cache_dir() -> Path:
    """The folder of this user's caches of this program, `~/.cache/sweeps` by default (XDG)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sweeps"


def use_machine(values: Any) -> None:
    """Set the folders of these flags for this process and its children."""
    use_folder(DATA_DIR_VARIABLE, values.data_dir)
    use_folder(PREPARED_DIR_VARIABLE, values.prepared_dir)


def use_folder(variable: str, folder: str | None) -> None:
    """Set a folder in the environment, if one was given."""
    if folder:
        os.environ[variable] = str(Path(folder).expanduser().resolve())


def data_dir() -> Path | None:
    """The folder of the raw data, by `--data-dir` or the environment; None where none was given."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    return Path(named) if named else None
