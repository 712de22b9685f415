"""The files of a trial that runs a program: its working folder, and its checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeps.common import local_dirs, project
from sweeps.common.errors import PCUnfit
from sweeps.common.param_types import nested
from sweeps.kinds.commands.command_words import INSIDE
from sweeps.kinds.commands.program import Program
from sweeps.kinds.commands.program_reports import ProgramEpochs
from sweeps.kinds.function import Save

WANDB_FILE = "wandb-config.yaml"
NOT_LINKED = (
    *(project.RESULTS, "__pycache__", "lightning_logs", "logs", "mlruns", "multirun", "outputs", "runs"),
    *("tb_logs", "wandb"),
)
"""Entries of the project's folder that programs write to: each trial makes its own."""
_KNOWN_EPOCH = ".sweeps-epoch"
"""In a checkpoint: the last epoch that was reported, as the program counts, and in which output."""
_PREFIX = "sweeps-command-"
"""Of the folder of a trial."""


class TrialFolder:
    """The files of a trial on its PC. They are removed when nothing refers to it any more."""

    def __init__(self, of_project: Path) -> None:
        local_dirs.remove_left(f"{_PREFIX}*")
        if not of_project.is_dir():
            raise PCUnfit(
                f"{of_project} is not there: a command needs the project's folder at the same path on each PC"
            )
        top = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._remover = weakref.finalize(self, _remove, top, local_dirs.claim(top))
        self.work, self.checkpoint, self.metrics = top / "work", top / "checkpoint", top / "metrics.jsonl"
        self.work.mkdir()
        self.checkpoint.mkdir()
        self.metrics.touch()
        for entry in of_project.iterdir():
            if not entry.name.startswith(".") and entry.name not in NOT_LINKED:
                (self.work / entry.name).symlink_to(entry)

    def wandb_config(self, values: Mapping[str, Any]) -> Path:
        """The file of hyperparameters that `wandb.init` puts into `wandb.config`, over the program's own."""
        file = self.work.parent / WANDB_FILE
        file.write_text(wandb_config(values))
        return file

    def fill(self, checkpoint: Path | None, metric: str) -> tuple[ProgramEpochs, str]:
        """Copy a checkpoint to where the program looks for it; what it had reported, and where."""
        if checkpoint is None:
            return ProgramEpochs(metric), ""
        shutil.copytree(checkpoint, self.checkpoint, symlinks=True, dirs_exist_ok=True)
        known = self.checkpoint / _KNOWN_EPOCH
        last, are_named, source = json.loads(known.read_text())
        known.unlink()
        return ProgramEpochs(metric, last, are_named=are_named), source

    def saving(self, program: Program, epochs: ProgramEpochs, source: str) -> Save:
        """What writes a checkpoint of a report, as long as its program is stopped, or has ended."""

        def save(folder: Path) -> None:
            program.hold_between_writes(self.checkpoint)
            _copy(self.checkpoint, folder)
            (folder / _KNOWN_EPOCH).write_text(json.dumps([epochs.last, epochs.are_named, source]))

        return save


def wandb_config(values: Mapping[str, Any]) -> str:
    """Hyperparameters as W&B's files have them."""
    return json.dumps({name: {"value": value} for name, value in nested(values, INSIDE).items()})


def _remove(folder: Path, claim: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(claim)


def _copy(source: Path, target: Path) -> None:
    """Copy the contents of a folder, so that they are whole at any other path: a link that points inside
    becomes a relative one, and what another one points to is copied."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for folder, folders, files in os.walk(target):
        for copy in (Path(folder, name) for name in (*folders, *files)):
            if not copy.is_symlink():
                continue
            link = source / copy.relative_to(target)
            to = Path(os.path.normpath(link.parent / link.readlink()))
            top = next((each for each in (source, source.resolve()) if to.is_relative_to(each)), None)
            copy.unlink()
            if top is not None:
                copy.symlink_to(os.path.relpath(source / to.relative_to(top), link.parent))
            elif link.is_dir():
                shutil.copytree(link, copy, ignore_dangling_symlinks=True)
            elif link.exists():
                shutil.copy2(link, copy)
