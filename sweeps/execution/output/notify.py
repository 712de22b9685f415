"""Run `--notify-command` in a shell: when a sweep has ended, whatever the outcome, and while it runs at the
events of `--notify-on`.

What has happened is in its environment (`facts`). A command that fails costs a line, never the sweep.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ray.tune.experiment import Trial

from sweeps.common.errors import RayLost, UserError
from sweeps.common.formatting import count
from sweeps.execution.output.event_lines import NewBest
from sweeps.execution.run_context import DriverCallback, RunContext, RunEnd
from sweeps.plan.plan import Plan
from sweeps.record import status
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import TrialEvent, TrialRow

TIMEOUT_S = 60.0
"""A mail server that does not answer must not keep a sweep from its end."""
EVERY_S = 60.0
"""Between two commands for the same event, at least."""
MOST_CHARACTERS = 1_000
"""Of the text: a reason may be of any length, and Linux starts no command with a variable over 128 KiB."""
LAST_S = 10.0
"""That the commands of a sweep that ends have, before they are killed."""


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
    """Run the command, if there is one for the end."""
    if plan.config.notify_command and "end" in plan.config.notify_events:
        send(plan.config.notify_command, facts(plan, record, "end", str(outcome), outcome, status))


def _of(error: BaseException) -> tuple[Outcome, int]:
    """Outcome and exit status of a run that an exception ends."""
    if isinstance(error, KeyboardInterrupt):
        return Outcome.INTERRUPTED, 130
    if isinstance(error, RecordLost):
        return Outcome.LOST, 2
    if isinstance(error, RayLost):
        return Outcome.LOST, 1
    return (Outcome.ERROR, 2) if isinstance(error, UserError) else (Outcome.CRASHED, 1)


def facts(
    plan: Plan,
    record: Record,
    event: str,
    what: str,
    outcome: Outcome = Outcome.RUNNING,
    exit_status: int | None = None,
) -> dict[str, str]:
    """The environment variables of the command; "" for those of the best trial where there is none, and for
    the exit status of a sweep that runs.

    Args:
        event: a word of `--notify-on`.
        what: has happened, for people.
    """
    best, score, leader = record.best(), None, status.best(record)
    if best is not None:
        score = record.front_values()[best.number][0]
        leader = f"best {leader}"
    text = f"{plan.config.name}: {what}; {leader}"
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS - 4]} ..."
    return {
        "SWEEP_EVENT": event,
        "SWEEP_NAME": str(plan.config.name),
        "SWEEP_OUTCOME": str(outcome),
        "SWEEP_STATUS": "" if exit_status is None else str(exit_status),
        "SWEEP_METRIC": plan.config.objective.metric,
        "SWEEP_BEST": "" if score is None else str(score),
        "SWEEP_TRIAL": "" if best is None else str(best.number),
        "SWEEP_FOLDER": str(plan.folder),
        "SWEEP_TEXT": text,
        "SWEEP_TEXT_JSON": json.dumps(text),
    }


def send(command: str, variables: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
    """Run the command, which prints where this program does, to its end or its timeout; print a line where it
    fails."""
    with contextlib.suppress(OSError):  # the reader may have gone, which the command is to report
        print("Running --notify-command ...", flush=True)
    if failure := ShellCommand(command, variables).run(timeout_s):
        print(f"--notify-command failed: {failure}", flush=True)


class ShellCommand:
    """A shell command in a session of its own: Ctrl-C is for this program."""

    def __init__(self, command: str, variables: Mapping[str, str]) -> None:
        self._command, self._environment = command, {**os.environ, **variables}
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, timeout_s: float, output: IO[bytes] | None = None) -> str:
        """Run it to its end or its timeout; why it failed, or ""."""
        try:
            with subprocess.Popen(
                self._command, shell=True, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            ) as self._process:  # fmt: skip
                try:
                    exit_status = self._process.wait(timeout_s)
                except BaseException:
                    self.kill()
                    raise
        except subprocess.TimeoutExpired:
            return f"timed out after {timeout_s:g} s"
        except (OSError, ValueError) as error:  # no process left; a NUL in the command
            return str(error)
        except KeyboardInterrupt:
            return "interrupted"
        return f"exit status {exit_status}" if exit_status else ""

    def kill(self) -> None:
        """End it, with all that it has started."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


class Alerts(DriverCallback):
    """Runs the command while the trials of one run of Tune train; a thread waits for it, not the sweep.

    What has happened before is no news: half of a sweep that is resumed in its second half is not told.
    """

    def __init__(self, context: RunContext, every_s: float = EVERY_S) -> None:
        self._context, self._record = context, context.record
        config = context.config
        self._events = config.notify_events if config.notify_command else []
        self._sender = _Sender(config.notify_command or "", context.say, every_s)
        self._has_news = False
        self._new_best, self._half_is_told = NewBest(self._record), bool(self._half())
        self._untold_failures = 0
        if self._events:
            self._record.listeners.append(self._hear)
            self._sender.start()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Tell a new best score, and once that half is through."""
        if "half" in self._events and not self._half_is_told and (how := self._half()):
            self._half_is_told = True
            self._put("half", how)
        if self._has_news and "best" in self._events and self._new_best.is_found():
            self._put("best", "new best")
        self._has_news = False

    def close(self) -> None:
        """Send what waits for its minute, and leave no command behind."""
        if self._events:
            self._record.listeners.remove(self._hear)
            self._sender.close()

    def _hear(self, event: TrialEvent, trial: TrialRow) -> None:
        self._has_news |= event in ("report", "ended")
        if event != "ended" or trial.status != "failed" or "failed" not in self._events:
            return
        self._untold_failures = 1 + (self._untold_failures if self._sender.holds("failed") else 0)
        what = f"trial {trial.number} failed: {trial.reason}"
        if (more := self._untold_failures) > 1:
            what = f"{count(more, 'trial')} failed, the last one trial {trial.number}: {trial.reason}"
        self._put("failed", what)

    def _put(self, event: str, what: str) -> None:
        self._sender.put(event, facts(self._context.plan, self._record, event, what))

    def _half(self) -> str:
        """What is half through; "" where nothing is."""
        hours, left_s = self._context.config.time_budget_hours, self._context.left_s
        if hours is not None and left_s is not None and left_s <= hours * 1800:
            return "half of --time-budget-hours is through"
        ended = sum(trial.status != "unfinished" for trial in self._record.searched)
        planned = self._record.most_trials
        return f"half of the trials is through, {ended} of {planned}" if 0 < planned <= 2 * ended else ""


def _file_for_output() -> IO[bytes]:
    """For what a command prints, which is left out where there is no room for a file."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return Path(os.devnull).open("w+b")


class _Sender(threading.Thread):
    """Runs a command for one event after another: at once, or when the last one for the same event is old
    enough. What waits is the newest."""

    def __init__(self, command: str, say: Callable[[str], None], every_s: float) -> None:
        super().__init__(name="--notify-command", daemon=True)
        self._command, self._say, self._every_s = command, say, every_s
        self._waiting: dict[str, Mapping[str, str]] = {}
        self._may_run_at: dict[str, float] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._running: ShellCommand | None = None
        self._failure = ""

    def put(self, event: str, variables: Mapping[str, str]) -> None:
        """Run it with these variables, in place of those that still wait for the event."""
        with self._changed:
            self._waiting[event] = variables
            self._changed.notify()

    def holds(self, event: str) -> bool:
        """Whether variables wait for an event."""
        with self._changed:
            return event in self._waiting

    def close(self, last_s: float = LAST_S) -> None:
        """Run what waits now, and kill what has not ended after so many seconds."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        try:
            self.join(last_s)
        finally:
            with self._changed:
                self._waiting.clear()
                running = self._running
            if running is not None:
                running.kill()
        self.join(1.0)

    def run(self) -> None:
        """Until it is closed."""
        while (variables := self._next()) is not None:
            with _file_for_output() as output:
                with self._changed:
                    self._running = command = ShellCommand(self._command, variables)
                failure = command.run(TIMEOUT_S, output)
                with self._changed:
                    self._running = None
                output.seek(0)
                said = output.read().decode(errors="replace").strip().splitlines()
            why = f"{failure}: {said[-1]}" if failure and said else failure
            if why and why != self._failure:  # once, where each one fails alike
                self._say(f"--notify-command failed at {variables['SWEEP_EVENT']!r}: {why}")
            self._failure = why

    def _next(self) -> Mapping[str, str] | None:
        with self._changed:
            while True:
                now = time.monotonic()
                due = min(self._waiting, key=lambda event: self._may_run_at.get(event, 0.0), default=None)
                in_s = math.inf if due is None else self._may_run_at.get(due, 0.0) - now
                if due is not None and (self._is_closing or in_s <= 0):
                    self._may_run_at[due] = now + self._every_s
                    return self._waiting.pop(due)
                if self._is_closing:
                    return None
                self._changed.wait(None if due is None else in_s)
