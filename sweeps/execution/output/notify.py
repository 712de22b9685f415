"""Run `--notify-command` in a shell when a sweep has ended, whatever the outcome.

The outcome is in its environment (`facts`). A command that fails costs a line, never the sweep.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping

from sweeps.common.errors import RayLost, UserError
from sweeps.execution.run_context import RunEnd
from sweeps.plan.plan import Plan
from sweeps.record import status
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome


@contextlib.contextmanager
def at_the_end(plan: Plan, record: Record, end: RunEnd) -> Iterator[None]:
    """Send the notice when a run that has begun has ended, also by an exception."""
    try:
        yield
    except BaseException as error:
        if end.has_begun or isinstance(error, RayLost):
            send_notice(plan, record, *_of(error))
        raise
    if end.has_begun:
        send_notice(plan, record, end.outcome, end.status)


def send_notice(plan: Plan, record: Record, outcome: Outcome, status: int) -> None:
    """Run the command, if there is one."""
    if plan.config.notify_command:
        send(plan.config.notify_command, facts(plan, record, outcome, status))


def _of(error: BaseException) -> tuple[Outcome, int]:
    """Outcome and exit status of a run that an exception ends."""
    if isinstance(error, KeyboardInterrupt):
        return Outcome.INTERRUPTED, 130
    if isinstance(error, RecordLost):
        return Outcome.LOST, 2
    if isinstance(error, RayLost):
        return Outcome.LOST, 1
    return (Outcome.ERROR, 2) if isinstance(error, UserError) else (Outcome.CRASHED, 1)


def facts(plan: Plan, record: Record, outcome: Outcome, exit_status: int) -> dict[str, str]:
    """The environment variables of the command; "" for those of the best trial where there is none."""
    best, score, leader = record.best(), None, status.best(record)
    if best is not None:
        confirmed = record.confirmed()
        is_confirmed = bool(confirmed and confirmed[0].scores)
        score = confirmed[0].mean if is_confirmed else best.best_score(record.objective)
        leader = f"best {leader}"
    return {
        "SWEEP_NAME": str(plan.config.name),
        "SWEEP_OUTCOME": str(outcome),
        "SWEEP_STATUS": str(exit_status),
        "SWEEP_METRIC": plan.config.objective.metric,
        "SWEEP_BEST": "" if score is None else str(score),
        "SWEEP_TRIAL": "" if best is None else str(best.number),
        "SWEEP_FOLDER": str(plan.folder),
        "SWEEP_TEXT": f"{plan.config.name}: {outcome}; {leader}",
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
