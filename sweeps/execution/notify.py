"""Tell somebody that a sweep has ended: `--notify-command` runs in a shell, whatever the outcome was.

What it is told stands in its environment (`facts`). It may fail: that costs a line, never the sweep.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sweeps.common.errors import UserError
from sweeps.common.formatting import short
from sweeps.plan.plan import Plan
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record

TIMEOUT_S = 60.0
"""A mail server that does not answer must not keep a sweep from its end."""


@dataclass
class Notice:
    """How a run ended; nobody is told of one that has not begun."""

    outcome: str = ""
    """finished, out of time, interrupted, error, lost, or crashed; "" before the run begins."""
    status: int = 1
    """Exit status."""

    def begin(self) -> None:
        """The run begins: if nothing else is heard of it, it has crashed."""
        self.outcome = "crashed"


@contextlib.contextmanager
def at_the_end(plan: Plan, record: Record) -> Iterator[Notice]:
    """The notice to fill in; sent when the run has ended, also by an exception."""
    notice = Notice()
    try:
        yield notice
    except BaseException as error:
        if notice.outcome:
            notice.outcome, notice.status = _of(error)
        raise
    finally:
        if notice.outcome and plan.config.notify_command:
            send(plan.config.notify_command, facts(plan, record, notice))


def facts(plan: Plan, record: Record, notice: Notice) -> dict[str, str]:
    """What the command is told; "" where there is no best trial."""
    best, metric = record.best(), plan.config.objective.metric
    score = None if best is None else best.best_score(record.objective)
    leads = "no trial ended well"
    if best is not None:
        confirmed = record.confirmed()
        if confirmed and confirmed[0].scores:
            score = confirmed[0].mean
        of_those = ", among the trials that ended" if record.live else ""
        leads = f"best {metric} {short(score)} (trial {best.number}{of_those})"
    return {
        "SWEEP_NAME": str(plan.config.name),
        "SWEEP_OUTCOME": notice.outcome,
        "SWEEP_STATUS": str(notice.status),
        "SWEEP_METRIC": metric,
        "SWEEP_BEST": "" if score is None else str(score),
        "SWEEP_TRIAL": "" if best is None else str(best.number),
        "SWEEP_FOLDER": str(plan.folder),
        "SWEEP_TEXT": f"{plan.config.name}: {notice.outcome}; {leads}",
    }


def send(command: str, told: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
    """Run the command to its end, or for so long; print a line when it fails."""
    with contextlib.suppress(OSError):  # who reads this may have gone, and that is what the command tells
        print("Running --notify-command ...", flush=True)
    with _output() as output:
        trouble = _trouble(command, told, timeout_s, output)
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    if trouble:
        print(f"--notify-command failed: {': '.join([trouble, *lines[-1:]])}", flush=True)


def _output() -> IO[bytes]:
    """For what the command says. No pipe: what it leaves in the background would hold it open."""
    try:
        return tempfile.TemporaryFile()
    except OSError:  # no temporary folder can be written: a full disk is no reason not to tell
        return Path(os.devnull).open("r+b")


def _trouble(command: str, told: Mapping[str, str], timeout_s: float, output: IO[bytes]) -> str:
    """What went wrong; "" when nothing did."""
    try:
        process = subprocess.Popen(
            command,
            shell=True,
            env={**os.environ, **told},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a group of its own, to be ended whole
        )
    except (OSError, ValueError) as error:  # no process left; a NUL in the command
        return str(error)
    try:
        status = process.wait(timeout_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "interrupted" if isinstance(error, KeyboardInterrupt) else f"no end after {timeout_s:g} s"
    return f"exit status {status}" if status else ""


def _of(error: BaseException) -> tuple[str, int]:
    """Outcome and exit status of a run that an exception ends."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, RecordLost):
        return "lost", 2
    return ("error", 2) if isinstance(error, UserError) else ("crashed", 1)
