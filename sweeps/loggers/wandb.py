"""Weights & Biases: a run for each trial, grouped by the sweep, in `wandb/` of its folder or in your account.

wandb sync results/NAME/wandb/offline-run-*

Its package works in a process of its own (`_wandb_process.py`): in that of the sweep it would replace
`sys.exit`, print a traceback for each line that it can't log, wait at the end for a server that is away, and
never work again once its own service has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.loggers import NotWritten, RunWriter, epochs_with_best
from sweeps.record import sweep_info
from sweeps.record.sweep_info import SweepInfo
from sweeps.record.trials import ENDED_WELL, TrialRow

ANSWER_S = 90.0
"""For a request: W&B itself gives up connecting, and uploading the rest of a run, after 30 s each."""


class Logger(RunWriter):
    """The runs of a sweep.

    Args:
        folder: of the sweep.
        info: of the sweep.
        answer_s: for a request.

    Raises:
        NotWritten: W&B can't be used; the text says why.
    """

    NEEDS: ClassVar[tuple[str, str]] = ("wandb", "wandb")

    @classmethod
    def check(cls) -> None:
        """WANDB_MODE may be none of its modes, or need an account where nobody is logged in."""
        done = subprocess.run(_command(Path()), input=b"", capture_output=True, env=_environment())
        if why := json.loads(done.stdout.partition(b"\n")[0] or "{}").get("error"):
            raise UserError(f"--loggers wandb: {why}")

    @classmethod
    def build(cls, folder: Path, about: Mapping[str, Any]) -> Logger:
        return cls(folder, sweep_info.parse(about))

    def __init__(self, folder: Path, info: SweepInfo, answer_s: float = ANSWER_S) -> None:
        self._info, self._answer_s = info, answer_s
        # An account may have another sweep of this name.
        self._key = hashlib.sha256(f"{info.name} of {info.started}".encode()).hexdigest()[:8]
        # In a process group of its own: a Ctrl-C in the terminal is for the sweep.
        self._process = subprocess.Popen(
            _command(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            process_group=0, env=_environment(),
        )  # fmt: skip
        try:
            self._mode = str(self._answer()["mode"])
            """online, offline or disabled."""
        except BaseException:
            self.close()
            raise

    def write(self, trial: TrialRow, is_on: bool) -> None:
        """Write what a run lacks. Without an account nobody looks on: then it is written when it ends."""
        is_over = trial.status != "unfinished" or not is_on
        if self._mode == "online" or (self._mode == "offline" and is_over):
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(self._run_of(trial, is_over)).encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise NotWritten("its process has ended") from None
            self._answer()

    def close(self) -> None:
        """Let the process end by itself, as W&B may still write; it is killed where that takes long."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self._process.communicate(timeout=self._answer_s)
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            is_there = bool(selector.select(self._answer_s))
        line = self._process.stdout.readline() if is_there else b""
        answer: dict[str, Any] = json.loads(line or "{}")
        if line and "error" not in answer:
            return answer
        self._process.kill()
        late = "its process has ended" if is_there else f"W&B did not answer in {self._answer_s:g} s"
        raise NotWritten(answer.get("error", late))

    def _run_of(self, trial: TrialRow, is_over: bool) -> dict[str, Any]:
        """A trial in the terms of W&B, its epochs in order."""
        more = {"trainable": trial.trainable, "seed": trial.seed}
        log = {} if trial.log is None else {"log": trial.log}
        return {
            "id": f"{self._key}-{trial.number:04d}",
            "name": f"trial_{trial.number:04d}",
            "group": self._info.name,
            "job_type": "trial" if trial.confirms is None else "rerun",
            "config": _nested({**trial.fixed, **trial.params, **more}),
            "epochs": [
                (epoch, {**scalars, "_timestamp": row.time})
                for epoch, row, scalars in epochs_with_best(trial, self._info.objective)
            ],
            "summary": {"status": trial.status, "reason": trial.reason, **log, **trial.place},
            "exit_code": int(trial.status not in (*ENDED_WELL, "unfinished")),
            "is_over": is_over,
        }


def _command(folder: Path) -> list[str]:
    """Of the process, for the sweep in a folder."""
    return [sys.executable, "-P", "-m", "sweeps.loggers._wandb_process", str(folder)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(project.path_behind())}


def _nested(params: Mapping[str, Any]) -> dict[str, Any]:
    """`{"model.lr": 0.1}` as `{"model": {"lr": 0.1}}`: W&B shows both alike, and takes no dot in a name."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        *path, last = name.split(".")
        inner = found
        for each in path:
            inner = inner.setdefault(each, {})
        inner[last] = value
    return found
