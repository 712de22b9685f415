"""Weights & Biases: a run for each trial, grouped by the sweep, in `wandb/` of its folder or in your account.

wandb sync results/NAME/wandb/offline-run-*
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.imports import too_old
from sweeps.common.param_types import nested
from sweeps.common.yaml_values import nearest
from sweeps.loggers import RunWriter, epochs_with_best
from sweeps.loggers._follower import environment
from sweeps.record import sweep_info
from sweeps.record.sweep_info import SweepInfo
from sweeps.record.trials import ENDED_WELL, TrialRow

OLDEST = "0.19.10"
"""The first release that has several runs in a process (`reinit="create_new"`)."""
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
FOLDER = "wandb"
"""W&B's own, in the folder of the sweep."""
WRITTEN = "written.json"
"""File in the folder of a run that is whole: its id, its last epoch and the status of its trial."""


class Logger(RunWriter):
    """The runs of a sweep.

    Raises:
        UserError: W&B can't be used; the text says why.
    """

    NEEDS: ClassVar[tuple[str, str]] = ("wandb", "wandb")

    @classmethod
    def check(cls) -> None:
        """WANDB_MODE may be none of its modes, or need an account where nobody is logged in."""
        # W&B would replace `sys.exit` of the sweep, and wait at its end for a server that is away.
        command = [sys.executable, "-P", "-c", "from sweeps.loggers import wandb; wandb.print_fault()"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        if why := done.stdout.strip():
            raise UserError(f"--loggers wandb: {why}")

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        return cls(folder, sweep_info.parse(about))

    def __init__(self, folder: Path, info: SweepInfo) -> None:
        self._folder, self._info, self._mode = folder, info, _mode()
        # An account may have another sweep of this name.
        self._key = hashlib.sha256(f"{info.name} of {info.started}".encode()).hexdigest()[:8]
        self._written: dict[str, list[Any]] = {}
        """Id of a run that is whole to the last epoch and the status in it."""
        for path in sorted(folder.glob(f"{FOLDER}/*run-*/{WRITTEN}")):  # the latest is the last
            id, *state = json.loads(path.read_text())
            self._written[id] = state
        self._open: dict[str, tuple[Any, TrialRow, int]] = {}
        """Id to W&B's run, the trial as it was written last and its last epoch, the latest at the end."""

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Write what a run lacks. Without an account nobody looks on: then it is written when it ends."""
        is_over = trial.status != "unfinished" or not is_on
        if self._mode == "disabled" or (self._mode == "offline" and not is_over):
            return
        id = f"{self._key}-{trial.name.removeprefix('trial_')}"
        if self._written.get(id) == [max(trial.epochs, default=0), trial.status]:
            return
        run, _, last = self._open.pop(id) if id in self._open else self._begin(id, trial)
        for epoch, row, scalars in epochs_with_best(trial, self._info.objective):
            if epoch > last:
                # Without `commit` it is sent with the next.
                run.log({**scalars, "_timestamp": row.time}, step=epoch, commit=True)
                last = epoch
        self._open[id] = run, trial, last
        if is_over:
            self._finish(id)

    def close(self) -> None:
        """Wait until W&B has written its files."""
        import wandb

        wandb.teardown()

    def _begin(self, id: str, trial: TrialRow) -> tuple[Any, TrialRow, int]:
        import wandb

        if len(self._open) == 16:  # of trials that wait at a rung there may be hundreds
            self._finish(next(iter(self._open)))
        more = {"trainable": trial.trainable, "seed": trial.seed}
        settings = wandb.Settings(
            console="off", disable_git=True, save_code=False, symlink=False, x_disable_meta=True,
            x_disable_stats=True, x_disable_machine_info=True, x_save_requirements=False,
        )  # fmt: skip
        if hasattr(settings, "finish_timeout_raises"):  # since W&B 0.27
            settings.finish_timeout_raises = True
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), id=id, name=trial.name,
            group=self._info.name, job_type="trial" if trial.confirms is None else "rerun",
            config=nested({**trial.fixed, **trial.params, **more}, "."),  # W&B takes no dot in a name
            dir=str(self._folder), mode=self._mode, resume="allow", reinit="create_new",
            settings=settings,
        )  # fmt: skip
        return run, trial, max(run.starting_step - 1, 0)

    def _finish(self, id: str) -> None:
        run, trial, last = self._open.pop(id)
        log = {} if trial.log is None else {"log": trial.log}
        run.summary.update({"status": trial.status, "reason": trial.reason, **log, **trial.place})
        run.finish(int(trial.status not in (*ENDED_WELL, "unfinished")))
        self._written[id] = [last, trial.status]
        folder = Path(run.settings.sync_dir)
        atomic_io.write(folder / WRITTEN, json.dumps([id, *self._written[id]]))  # it fails on a full disk
        # `wandb sync` writes each over the one before, from the first epoch on: so a run is written whole.
        for before in folder.parent.glob(f"offline-run-*-{id}"):
            if before != folder:
                shutil.rmtree(before)


def print_fault() -> None:
    """Print why W&B can't be used, if it can't."""
    try:
        _mode()
    except UserError as error:
        print(error)


def _mode() -> Literal["online", "offline", "disabled"]:
    """As the user has set it up; by default offline without an account.

    Raises:
        UserError: W&B is too old, or WANDB_MODE is no mode, or asks for an account and nobody is logged in.
    """
    if fault := too_old("wandb", "W&B", OLDEST):
        raise UserError(fault)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    import wandb  # older releases read some of these now

    given = os.environ.get("WANDB_MODE")
    if given and given not in MODES:
        raise UserError(f"WANDB_MODE={given}: no such mode of Weights & Biases.{nearest(given, MODES)}")
    asked = wandb.setup().settings.mode
    if asked == "disabled":
        return "disabled"
    if asked in ("offline", "dryrun"):
        return "offline"
    with contextlib.suppress(wandb.errors.UsageError):  # nobody is logged in; without a terminal it can't ask
        if wandb.login(verify=False):
            return "online"
    if given:
        raise UserError(f"WANDB_MODE={asked} needs an account: type `wandb login`, or unset WANDB_MODE")
    return "offline"
