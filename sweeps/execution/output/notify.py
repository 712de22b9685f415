"""Run `--notify-command` in a shell when a sweep has ended, whatever the outcome.

The outcome is in its environment (`facts`). A command that fails costs a line, never the sweep.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweeps.common.errors import RayLost, UserError
from sweeps.plan.plan import Plan
from sweeps.record import status
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome


@dataclass
class Notice:
    """How a run ended."""

    outcome: Outcome | None = None
    """None before the run begins, when none is sent."""
    status: int = 1
    """Exit status."""

    def begin(self) -> None:
        """The run begins: unless another outcome is noted, it has crashed."""
        self.outcome = Outcome.CRASHED


@contextlib.contextmanager
def at_the_end(plan: Plan, record: Record) -> Iterator[Notice]:
    """The notice to fill in; sent when the run has ended, also by an exception."""
    notice = Notice()
    try:
        yield notice
    except BaseException as error:
        if notice.outcome or isinstance(error, RayLost):
            notice.outcome, notice.status = _of(error)
        raise
    finally:
        send_notice(plan, record, notice)


def send_notice(plan: Plan, record: Record, notice: Notice) -> None:
    """Run the command, if there is one and the run has begun."""
    if notice.outcome and plan.config.notify_command:
        send(plan.config.notify_command, facts(plan, record, notice))


def _of(error: BaseException) -> tuple[Outcome, int]:
    """Outcome and exit status of a run that an exception ends."""
    if isinstance(error, KeyboardInterrupt):
        return Outcome.INTERRUPTED, 130
    if isinstance(error, RecordLost):
        return Outcome.LOST, 2
    if isinstance(error, RayLost):
        return Outcome.LOST, 1
    return (Outcome.ERROR, 2) if isinstance(error, UserError) else (Outcome.CRASHED, 1)


def facts(plan: Plan, record: Record, notice: Notice) -> dict[str, str]:
    """The environment variables of the command; "" for those of the best trial where there is none."""
    best, score, leader = record.best(), None, status.best(record)
    if best is not None:
        confirmed = record.confirmed()
        is_confirmed = bool(confirmed and confirmed[0].scores)
        score = confirmed[0].mean if is_confirmed else best.best_score(record.objective)
        leader = f"best {leader}"
    return {
        "SWEEP_NAME": str(plan.config.name),
        "SWEEP_OUTCOME": str(notice.outcome),
        "SWEEP_STATUS": str(notice.status),
        "SWEEP_METRIC": plan.config.objective.metric,
        "SWEEP_BEST": "" if score is None else str(score),
        "SWEEP_TRIAL": "" if best is None else str(best.number),
        "SWEEP_FOLDER": str(plan.folder),
        "SWEEP_TEXT": f"{plan.config.name}: {notice.outcome}; {leader}",
    }


def send(command: str, variables: Mapping[str, str], timeout_s: float = 60.0) -> None:
    """Run the command, which prints where this program does, to its end or its timeout (a mail server that
    does not answer must not keep a sweep from its end); print a line where it fails."""
    with contextlib.suppress(OSError):  # the reader may have gone, which the command is to report
        print("Running --notify-command ...", flush=True)
    if failure := _failure_of(command, {**os.environ, **variables}, timeout_s):
        print(f"--notify-command failed: {failure}", flush=True)


def _failure_of(command: str, environment: Mapping[str, str], timeout_s: float) -> str:
    """Run a shell command in a session of its own: Ctrl-C is for this program. Why it failed, or ""."""
    try:
        with subprocess.Popen(
            command, shell=True, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                exit_status = process.wait(timeout_s)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
                raise
    except subprocess.TimeoutExpired:
        return f"timed out after {timeout_s:g} s"
    except (OSError, ValueError) as error:  # no process left; a NUL in the command
        return str(error)
    except KeyboardInterrupt:
        return "interrupted"
    return f"exit status {exit_status}" if exit_status else ""
