"""Folders that belong to a machine, not to a run: the data and the prepared data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sweeps.common.yaml_values import DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE

OF_THE_MACHINE = {"--data-dir": DATA_DIR_VARIABLE, "--prepared-dir": PREPARED_DIR_VARIABLE}
"""Flags that are of a machine, and in no file of settings: each goes into the environment."""


def cache_dir() -> Path:
    """The folder of this user's caches of this program, `~/.cache/sweeps` by default (XDG)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sweeps"


def use_machine(values: Any) -> None:
    """Let all find these folders, in this process and in those that it starts."""
    use_folder(DATA_DIR_VARIABLE, values.data_dir)
    use_folder(PREPARED_DIR_VARIABLE, values.prepared_dir)


def use_folder(variable: str, folder: str | None) -> None:
    """Say in the environment where a folder is, if one was given."""
    if folder:
        os.environ[variable] = str(Path(folder).expanduser().resolve())


def data_dir() -> Path | None:
    """The folder of the raw data that the user named, by `--data-dir` or the environment; None: none was."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    return Path(named) if named else None
