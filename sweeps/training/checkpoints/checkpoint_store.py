"""Checkpoints on disk: `checkpoints/trial_0003/epoch_0009/`, complete, and checked before use.

A checkpoint is written to a temporary folder and renamed; its manifest holds the size and checksum of each
file. One that is written again (a position inside an epoch goes under the last epoch that ended) gets a name
of its own, `epoch_0009.1`, so that the one before stays until it is there. `newest` finds where a trial
resumes, after a retry, a lost process or an interrupted sweep.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.atomic_io import atomic_write

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
SHARE = 0.02
"""Share of the training time that checkpoints may cost when no period is given."""
KEPT = 2
"""Checkpoints of a running trial: the newest, and one to fall back to."""
_NAME = re.compile(r"epoch_(\d+)(?:\.(\d+))?")


class Pace:
    """When a checkpoint is due.

    Args:
        epochs: between two checkpoints; None: so many that checkpoints cost at most `SHARE` of the time.
    """

    def __init__(self, epochs: int | None) -> None:
        self._epochs = epochs
        self._cost_s = 1.0  # until the first one is written
        self._trained_s = 0.0

    def trained(self, seconds: float) -> None:
        """Add the time of an epoch."""
        self._trained_s += seconds

    def is_due(self, epoch: int) -> bool:
        """Whether to write a checkpoint after this epoch."""
        if self._epochs is not None:
            return epoch % self._epochs == 0
        return self._cost_s <= SHARE * self._trained_s

    def cost(self, seconds: float) -> None:
        """Note the time that a checkpoint took."""
        self._cost_s, self._trained_s = seconds, 0.0


def folder_of(sweep: Path, number: int) -> Path:
    return sweep / FOLDER / f"trial_{number:04d}"


def write(
    folder: Path, epoch: int, fill: Callable[[Path], None], params: Mapping[str, Any] | None = None
) -> Path:
    """Write a checkpoint; remove all but the newest `KEPT`.

    Args:
        epoch: last trained epoch, 1-based.
        fill: writes the checkpoint's files into the folder that it is called with.
        params: the trial's; a trial with other params never resumes from it.

    Raises:
        FileNotFoundError: the sweep's folder is not on this PC.
        Exception: any error of `fill`; no incomplete checkpoint is left.
    """
    try:
        for each in (folder.parent, folder):  # never the sweep's: a lost share would be replaced unseen
            with contextlib.suppress(FileExistsError):  # `exist_ok` looks again: it may be lost by then
                each.mkdir()
    except FileNotFoundError:
        sweep, here = folder.parents[1], platform.node()
        raise FileNotFoundError(f"{sweep} is not there on {here}: all PCs must see that folder") from None
    there = all_of(folder)
    times = [time for other, time in map(_age, there) if other == epoch]
    target = folder / (f"epoch_{epoch:04d}" + (f".{max(times) + 1}" if times else ""))
    try:
        with atomic_write(target, folder / f".{target.name}.{platform.node()}.{os.getpid()}") as part:
            part.mkdir()
            fill(part)
            seal(part, params)
    except OSError as error:  # ENOTEMPTY: an abandoned process has just written the same checkpoint
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    for path in there:
        # Replaced, or later and damaged: this trial resumed from an earlier one.
        if epoch_of(path) >= epoch:
            remove(path)
    for old in all_of(folder)[KEPT:]:
        remove(old)
    return target


def seal(folder: Path, params: Mapping[str, Any] | None = None) -> None:
    """Write the manifest of a checkpoint whose files exist, of a trial with these params."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {str(path.relative_to(folder)): _facts(path) for path in paths}
    (folder / MANIFEST).write_text(json.dumps({"of": params, "files": files}))


def bytes_of(checkpoint: Path) -> int:
    """The size of a checkpoint's files, from its manifest."""
    manifest = checkpoint / MANIFEST
    sizes = (int(size) for size, _ in json.loads(manifest.read_text())["files"].values())
    return manifest.stat().st_size + sum(sizes)


def all_of(folder: Path) -> list[Path]:
    """The checkpoints of a trial, newest first."""
    return sorted(
        (path for path in folder.glob("epoch_*") if _NAME.fullmatch(path.name)), key=_age, reverse=True
    )


def epoch_of(checkpoint: Path) -> int:
    """The last epoch of a checkpoint."""
    return _age(checkpoint)[0]


def newest(folder: Path, params: Mapping[str, Any] | None = None) -> tuple[Path | None, list[str]]:
    """The newest complete checkpoint of a trial with these params, and what is wrong with newer ones."""
    faults: list[str] = []
    for checkpoint in all_of(folder):
        found = fault(checkpoint, params)
        if found is None:
            return checkpoint, faults
        faults.append(f"the checkpoint of epoch {epoch_of(checkpoint)} is damaged ({found})")
    return None, faults


def fault(checkpoint: Path, params: Mapping[str, Any] | None = None) -> str | None:
    """What is wrong with a checkpoint; None when it is complete and of a trial with these params."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text())
        if params is not None and manifest["of"] != params:
            return "it belongs to a trial with other params"
        for name, facts in manifest["files"].items():
            if _facts(checkpoint / name) != facts:
                return f"{name} has changed since it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        return f"it can't be read: {error}"
    return None


def remove(path: Path) -> None:
    """Remove a checkpoint, or all of a trial. It is renamed first, so that no name is left incomplete."""
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
    """Remove the temporary folders of killed processes."""
    for pattern in ("trial_*/.*", ".*"):
        for left in (sweep / FOLDER).glob(pattern):
            shutil.rmtree(left, ignore_errors=True)


def _age(checkpoint: Path) -> tuple[int, int]:
    """Its last epoch, and how often that was written before."""
    name = _NAME.fullmatch(checkpoint.name)
    assert name is not None, checkpoint
    return int(name[1]), int(name[2] or 0)


def _facts(file: Path) -> list[object]:
    return [file.stat().st_size, atomic_io.sha256_of(file)]
