"""The commands that a message about a sweep ends with, to be typed as they are."""

from __future__ import annotations

from pathlib import Path

from sweeps.common import local_dirs
from sweeps.common.formatting import command, shown_path
from sweeps.config.sweep_folder import SWEEP_FILE


def resume_command(folder: Path, *flags: str) -> str:
    """To resume a sweep, with more flags."""
    return command("run", "--resume", shown_path(folder.resolve()), *local_dirs.typed_again(), *flags)


def control_command(folder: Path, *words: str) -> str:
    """To steer a sweep that runs."""
    return command("control", shown_path(folder), *words)


def repeat_command(folder: Path, name: str) -> str:
    """To begin a new sweep with the same settings."""
    again = ("--config", shown_path(folder / SWEEP_FILE), "--name", f"{name}-again")
    return command("run", *again, *local_dirs.typed_again())
