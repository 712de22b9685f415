"""Checkpoints on disk: `checkpoints/trial_0003/epoch_0009/`, never half, checked before use.

One is written beside and renamed when it is whole and on the disk; its manifest holds the size and
checksum of each file, so that a damaged one is known before a trial goes on from it. Where a trial
goes on is found here alone, after a retry, a lost process or a resumed sweep alike.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweeps.common.atomic_io import atomic_write

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
SHARE = 0.02
"""Part of the training time that checkpoints may cost when no period is given."""
KEPT = 2
"""Of a trial that trains: the newest one, and one to fall back to."""


class Pace:
    """When a checkpoint is due: every so many epochs, or as often as they cost little of the training.

    Args:
        epochs: between two; None: as often as they take under 2 % of the time.
    """

    def __init__(self, epochs: int | None) -> None:
        self._epochs = epochs
        self._cost_s = 1.0  # until the first one is written
        self._trained_s = 0.0

    def trained(self, seconds: float) -> None:
        """An epoch took so long."""
        self._trained_s += seconds

    def is_due(self, epoch: int) -> bool:
        """Whether to write one after this epoch."""
        if self._epochs is not None:
            return epoch % self._epochs == 0
        return self._cost_s <= SHARE * self._trained_s

    def cost(self, seconds: float) -> None:
        """One was written, in so long."""
        self._cost_s, self._trained_s = seconds, 0.0


def folder_of(sweep: Path, number: int) -> Path:
    """Where the checkpoints of a trial are."""
    return sweep / FOLDER / f"trial_{number:04d}"


def write(
    folder: Path, epoch: int, fill: Callable[[Path], None], of: Mapping[str, Any] | None = None
) -> Path:
    """Write a checkpoint; drop those that are older than the last `KEPT`.

    Args:
        folder: of the trial.
        epoch: the last epoch that was trained, 1-based.
        fill: writes the files of the checkpoint into the folder that it is given.
        of: what the trial trains with; one with other params never goes on from it.

    Raises:
        FileNotFoundError: the folder of the sweep is not on this PC.
        Exception: what `fill` raises; no half checkpoint is left.
    """
    sweep = folder.parents[1]
    if not sweep.is_dir():
        raise FileNotFoundError(f"{sweep} is not there on {platform.node()}: all PCs must see that folder")
    target = folder / f"epoch_{epoch:04d}"
    try:
        with atomic_write(target, folder / f".{target.name}.{platform.node()}.{os.getpid()}") as part:
            part.mkdir(parents=True)
            fill(part)
            seal(part, of)
            for path in all_of(folder):
                if epoch_of(path) >= epoch:  # damaged, because this trial resumed from an earlier one
                    remove(path)
    except OSError as error:  # ENOTEMPTY: a process that was given up has just written the same
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    keep_newest(folder, KEPT)
    return target


def seal(folder: Path, of: Mapping[str, Any] | None = None) -> None:
    """Write the manifest of a checkpoint whose files are there.

    Args:
        folder: of the checkpoint.
        of: what the trial trains with.
    """
    files = {str(file.relative_to(folder)): _facts(file) for file in _files(folder)}
    (folder / MANIFEST).write_text(json.dumps({"of": of, "files": files}))


def all_of(folder: Path) -> list[Path]:
    """The checkpoints of a trial, newest first."""
    found = [path for path in folder.glob("epoch_*") if path.name.removeprefix("epoch_").isdigit()]
    return sorted(found, key=epoch_of, reverse=True)


def epoch_of(checkpoint: Path) -> int:
    """The last epoch that is in it."""
    return int(checkpoint.name.removeprefix("epoch_"))


def newest(
    folder: Path, of: Mapping[str, Any] | None = None, at_most: float = math.inf
) -> tuple[Path | None, list[str]]:
    """The newest whole checkpoint of a trial, and what is wrong with those that are newer.

    Args:
        folder: of the trial.
        of: what the trial trains with.
        at_most: the last epoch that is known.
    """
    faults: list[str] = []
    for checkpoint in (path for path in all_of(folder) if epoch_of(path) <= at_most):
        found = fault(checkpoint, of)
        if found is None:
            return checkpoint, faults
        faults.append(f"the checkpoint of epoch {epoch_of(checkpoint)} is broken ({found})")
    return None, faults


def fault(checkpoint: Path, of: Mapping[str, Any] | None = None) -> str | None:
    """What is wrong with a checkpoint; None when it is as it was written, by the trial that is meant."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text())
        if of is not None and manifest["of"] != of:
            return "it is of a trial with other params"
        for name, facts in manifest["files"].items():
            if _facts(checkpoint / name) != facts:
                return f"{name} is not as it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        return f"it can't be read: {error}"
    return None


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest ones of a trial."""
    for old in all_of(folder)[count:]:
        remove(old)


def remove(path: Path) -> None:
    """Remove a checkpoint, or all of a trial. Renamed first: what stands under its name is whole."""
    gone = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.rename(gone)
    except FileNotFoundError:
        return
    if gone.is_dir():
        shutil.rmtree(gone, ignore_errors=True)
    else:
        gone.unlink()


def tidy(sweep: Path) -> None:
    """Remove what writers and removers that were killed have left."""
    for left in (sweep / FOLDER).glob("trial_*/.*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in (sweep / FOLDER).glob(".*"):
        shutil.rmtree(left, ignore_errors=True)


def _facts(file: Path) -> list[object]:
    with file.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    return [file.stat().st_size, checksum]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
