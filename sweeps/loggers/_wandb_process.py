"""The process that writes the runs of a sweep for `wandb.py`. Each request and each answer is a line of JSON.

It ends with its standard input, and so with the sweep.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import wandb

from sweeps.common.errors import UserError, reason_of
from sweeps.loggers import _wandb_files

PROJECT = "sweeps"
"""Where WANDB_PROJECT names none."""
GIVE_UP_S = 30.0
DEFAULTS = {
    "WANDB_INIT_TIMEOUT": str(GIVE_UP_S),  # of connecting to the server
    "WANDB_FINISH_TIMEOUT": str(GIVE_UP_S),  # of uploading the rest of a run
    "WANDB_ERROR_REPORTING": "false",  # to W&B, also of runs that are offline
    "WANDB_SILENT": "true",
}
"""What the user may set otherwise."""
MOST_OPEN = 16
"""Runs at a time: of trials that wait at a rung there may be hundreds."""
FOLDER = "wandb"
"""W&B's own, in the folder of the sweep."""
Mode = Literal["online", "offline", "disabled"]


def main(folder: Path | None = None) -> None:
    """Answer with the mode, and then each request for a run in the folder of a sweep."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # W&B prints

    def tell(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        mode = _mode()
        tell(mode=mode)
        if folder is not None:
            runs = Runs(folder, mode)
            for line in sys.stdin:
                runs.write(json.loads(line))
                tell()
    except UserError as error:
        tell(error=str(error))
    except Exception as error:  # the sweep starts a new process for its next attempt
        tell(error=reason_of(error))


def _mode() -> Mode:
    """As the user has set it up; by default offline without an account.

    Raises:
        UserError: the user asks for an account, and is not logged in.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    asked = wandb.setup().settings.mode
    if asked == "disabled":
        return "disabled"
    if asked in ("offline", "dryrun"):
        return "offline"
    if wandb.login(verify=False, prompt=False):
        return "online"
    if os.environ.get("WANDB_MODE"):
        raise UserError(f"WANDB_MODE={asked} needs an account: type `wandb login`, or unset WANDB_MODE")
    return "offline"


class Runs:
    """The runs of a sweep.

    Args:
        folder: of the sweep.
        mode: of all of them.
    """

    def __init__(self, folder: Path, mode: Mode) -> None:
        self._folder, self._mode = folder, mode
        self._written: dict[str, tuple[int, str]] = {}
        """Id of a run that is not open to the last epoch and the status in its file."""
        self._offline: dict[str, list[Path]] = {}
        """Id to the folders of a run that is offline. `wandb sync` writes each over the one before, from the
        first epoch on: so a run is written whole, and the folder before is removed."""
        for file in _wandb_files.found(folder / FOLDER):
            if file.is_whole:
                self._written[file.id] = file.last_epoch, file.status
            if file.path.parent.name.startswith("offline-"):
                self._offline.setdefault(file.id, []).append(file.path.parent)
        self._open: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        """Id to W&B's run and the trial as it was written last, the latest at the end."""
        self._last: dict[str, int] = {}
        """Id of an open run to its last epoch."""

    def write(self, trial: Mapping[str, Any]) -> None:
        """Write what a run lacks.

        Args:
            trial: as `wandb.py` tells it.

        Raises:
            OSError: the file does not hold what was written.
            Exception: one of W&B.
        """
        id, status = trial["id"], trial["summary"]["status"]
        epochs = trial["epochs"]
        if self._written.get(id) == (epochs[-1][0] if epochs else 0, status):
            return
        run = self._open.pop(id)[0] if id in self._open else self._begin(trial)
        self._open[id] = run, trial
        for epoch, metrics in epochs:
            if epoch > self._last[id]:
                run.log(metrics, step=epoch, commit=True)  # else it is sent with the next
                self._last[id] = epoch
        if trial["is_over"]:
            self._finish(id)

    def _begin(self, trial: Mapping[str, Any]) -> Any:
        if len(self._open) == MOST_OPEN:
            self._finish(next(iter(self._open)))
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            **{key: trial[key] for key in ("id", "name", "group", "job_type", "config")},
            dir=str(self._folder), mode=self._mode, resume="allow", reinit="create_new",
            settings=wandb.Settings(
                console="off", disable_git=True, save_code=False, symlink=False, x_disable_meta=True,
                x_disable_stats=True, x_disable_machine_info=True, x_save_requirements=False,
                finish_timeout_raises=True,
            ),
        )  # fmt: skip
        self._last[trial["id"]] = max(run.starting_step - 1, 0)
        return run

    def _finish(self, id: str) -> None:
        run, trial = self._open.pop(id)
        run.summary.update(trial["summary"])
        run.finish(trial["exit_code"])
        last = self._last.pop(id)
        before = self._offline.pop(id, [])
        if self._mode == "offline":
            path = Path(run.settings.sync_file)
            self._offline[id] = [path.parent]
            self._check_file(path, tuple(epoch for epoch, _ in trial["epochs"]))
        for folder in before:
            shutil.rmtree(folder)
        self._written[id] = last, trial["summary"]["status"]

    def _check_file(self, path: Path, epochs: tuple[int, ...]) -> None:
        """Wait until a file is whole: `finish` returns before, and reports no error of the disk."""
        waits_until = time.monotonic() + GIVE_UP_S
        while True:
            file = _wandb_files.read(self._folder / FOLDER / path.parent.name / path.name)
            if file.is_whole and file.epochs == epochs:
                return
            if time.monotonic() > waits_until or not path.exists():
                shutil.rmtree(path.parent, ignore_errors=True)
                raise OSError(f"{path} is not whole: the disk is full, or its folder was removed")
            time.sleep(0.005)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
