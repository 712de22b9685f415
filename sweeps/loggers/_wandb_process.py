"""The process that writes the runs of a sweep for `wandb.py`. Each request and each answer is a line of JSON.

It ends with its standard input, and so with the sweep.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import wandb

from sweeps.common import atomic_io
from sweeps.common.errors import UserError, reason_of
from sweeps.common.yaml_values import nearest

PROJECT = "sweeps"
"""Where WANDB_PROJECT names none."""
MODES = ("online", "offline", "disabled", "shared", "dryrun", "run")
DEFAULTS = {
    "WANDB_INIT_TIMEOUT": "30",  # s, of connecting to the server
    "WANDB_FINISH_TIMEOUT": "30",  # s, of uploading the rest of a run
    "WANDB_ERROR_REPORTING": "false",  # to W&B, also of runs that are offline
    "WANDB_SILENT": "true",
}
"""What the user may set otherwise."""
MAX_OPEN_RUNS = 16
"""Runs at a time: of trials that wait at a rung there may be hundreds."""
FOLDER = "wandb"
"""W&B's own, in the folder of the sweep."""
WRITTEN = "written.json"
"""File in the folder of a run that is whole: its id, its last epoch and the status of its trial."""
Mode = Literal["online", "offline", "disabled"]


def main(folder: Path) -> None:
    """Answer with the mode, and then each request for a run in the folder of a sweep."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # W&B prints

    def tell(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        mode = _mode()
        tell(mode=mode)
        runs = Runs(folder, mode)
        for line in sys.stdin:
            runs.write(json.loads(line))
            tell()
    except UserError as error:
        tell(error=str(error))
    except Exception as error:  # the sweep starts a new process for its next attempt
        tell(error=reason_of(error))
    wandb.teardown()  # waits until its files are written


def _mode() -> Mode:
    """As the user has set it up; by default offline without an account.

    Raises:
        UserError: WANDB_MODE is no mode, or asks for an account and nobody is logged in.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    given = os.environ.get("WANDB_MODE")
    if given and given not in MODES:
        raise UserError(f"WANDB_MODE={given}: no such mode of Weights & Biases.{nearest(given, MODES)}")
    asked = wandb.setup().settings.mode
    if asked == "disabled":
        return "disabled"
    if asked in ("offline", "dryrun"):
        return "offline"
    if wandb.login(verify=False, prompt=False):
        return "online"
    if given:
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
        self._written: dict[str, list[Any]] = {}
        """Id of a run that is whole to the last epoch and the status in it."""
        for path in sorted(folder.glob(f"{FOLDER}/*run-*/{WRITTEN}")):  # the latest is the last
            id, *state = json.loads(path.read_text())
            self._written[id] = state
        self._open: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        """Id to W&B's run and the trial as it was written last, the latest at the end."""
        self._last: dict[str, int] = {}
        """Id of an open run to its last epoch."""

    def write(self, trial: Mapping[str, Any]) -> None:
        """Write what a run lacks.

        Args:
            trial: as `wandb.py` tells it.

        Raises:
            Exception: one of W&B, or of the disk.
        """
        id, epochs = trial["id"], trial["epochs"]
        if self._written.get(id) == [epochs[-1][0] if epochs else 0, trial["summary"]["status"]]:
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
        if len(self._open) == MAX_OPEN_RUNS:
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
        self._written[id] = [self._last.pop(id), trial["summary"]["status"]]
        folder = Path(run.sync_dir)
        atomic_io.write(folder / WRITTEN, json.dumps([id, *self._written[id]]))  # it fails on a full disk
        # `wandb sync` writes each over the one before, from the first epoch on: so a run is written whole.
        for before in folder.parent.glob(f"offline-run-*-{id}"):
            if before != folder:
                shutil.rmtree(before)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
