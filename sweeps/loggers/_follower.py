"""Processes that keep the loggers up to date with the record of a sweep.

A logger writes what the record holds and it lacks, also after a resume, and nothing twice. It has a process
of its own, which is started again after an error: its package may print, import PyTorch, replace `sys.exit`,
hang, or never work again. An error is printed and never ends the sweep. The process ends with its standard
input.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeps.common import project
from sweeps.common.errors import UserError, reason_of
from sweeps.config import plugins
from sweeps.loggers import RunWriter
from sweeps.record.live_record import LiveRecord
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow


@dataclass(frozen=True)
class Intervals:
    """How often a logger is updated, in seconds."""

    every_s: float = 1.0
    retry_s: float = 60.0
    """After an error."""
    end_s: float = 60.0
    """For the last update when the sweep has ended: a server may not answer."""
    answer_s: float = 90.0
    """For its start, for a trial and for its end: W&B itself gives up connecting, and uploading the rest of a
    run, after 30 s each."""


@contextlib.contextmanager
def following(names: Iterable[str], folder: Path, intervals: Intervals = Intervals()) -> Iterator[None]:
    """Update the loggers of a sweep while a block runs, and once more at its end."""
    followers = [_Follower(name, folder, intervals) for name in names]
    for follower in followers:
        follower.start()
    try:
        yield
    finally:
        for follower in followers:
            follower.tell_end()
        for follower in followers:
            follower.wait()


def catch_up(names: Iterable[str], folder: Path) -> None:
    """Write what the loggers lack of a sweep that has ended."""
    with following(names, folder):
        pass


def environment() -> dict[str, str]:
    """Of a process that imports a logger."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(project.path_behind())}


class _Follower(threading.Thread):
    """Keeps the process of one logger running, and prints why it failed."""

    def __init__(self, name: str, folder: Path, intervals: Intervals) -> None:
        super().__init__(name=f"logger {name}", daemon=True)
        self._logger_name, self._intervals = name, intervals
        module = ["-P", "-m", "sweeps.loggers._follower"]
        self._command = [sys.executable, *module, name, str(folder), str(intervals.every_s)]
        self._process: subprocess.Popen[bytes] | None = None
        self._ends = threading.Event()
        self._has_warned = self._is_given_up = False

    def run(self) -> None:
        """Start it again and again, until it has written all of a sweep that has ended."""
        while True:
            process = None
            try:
                # In a process group of its own: a Ctrl-C in the terminal is for the sweep.
                self._process = process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    process_group=0, env=environment(),
                )  # fmt: skip
            except OSError as error:  # no memory, say
                reason = f"its process does not start: {error.strerror or error}"
            else:
                if self._ends.is_set():
                    self.tell_end()
                reason = self._heard(process)
                if self._is_given_up or (not reason and self._status(process) == 0):
                    return
            is_last = self._ends.is_set()
            self._warn(reason or "its process has ended", is_last)
            if process is not None:
                self._status(process)
            if is_last:
                return
            self._ends.wait(self._intervals.retry_s)

    def _heard(self, process: subprocess.Popen[bytes]) -> str:
        """Listen until it ends, or kill it when it is silent for too long; the reason, "" if it gave none."""
        assert process.stdout is not None
        poll = select.poll()  # `select.select` takes no file above 1023
        poll.register(process.stdout, select.POLLIN)
        said = b""
        while poll.poll(1000 * self._intervals.answer_s):
            if not (more := os.read(process.stdout.fileno(), 4096)):
                return said.decode(errors="replace").strip()
            said = (said + more).lstrip()  # an empty line is a sign of life
        process.kill()
        return f"it did not answer in {self._intervals.answer_s:g} s"

    def _status(self, process: subprocess.Popen[bytes]) -> int:
        """Of its end, for which its package may wait for ever."""
        try:
            return process.wait(self._intervals.answer_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def tell_end(self) -> None:
        """Let it write the rest, now that the sweep has ended."""
        self._ends.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self) -> None:
        """Wait until the rest is written, or for too long."""
        end_s = self._intervals.end_s
        self.join(2 * self._intervals.every_s)
        if self.is_alive():
            print(f"Writing the last results to {self._logger_name}.", flush=True)
            self.join(end_s)
        if self.is_alive():
            print(f"--loggers {self._logger_name}: some results were not written in {end_s:g} s.", flush=True)
            self._is_given_up = True
            if self._process is not None:
                self._process.kill()

    def _warn(self, reason: str, is_last: bool) -> None:
        """Once while the sweep runs, and at its end, if some results are missing then."""
        if self._has_warned and not is_last:
            return
        self._has_warned = True
        then = f"The sweep continues; the logger retries every {self._intervals.retry_s:g} s."
        if is_last:
            then = "Some results were not written."
        with contextlib.suppress(OSError):
            print(f"--loggers {self._logger_name}: {reason}. {then}", flush=True)


def _follow(name: str, folder: Path, every_s: float, show_life: Callable[[], None]) -> None:
    """Update a logger until the standard input ends, and once more."""
    live = LiveRecord(folder)
    written: dict[tuple[int, int], tuple[int, str]] = {}
    logger: RunWriter = plugins.find("logger", name).build(folder, live.read().about)
    is_on = True
    while is_on:
        is_on = not select.select([sys.stdin], [], [], every_s)[0]
        for trial in attempts_in(live.read()):
            attempt, state = (trial.number, trial.attempt), (len(trial.epochs), trial.status)
            before = written.get(attempt, (0, ""))
            if before[1] not in ("", "unfinished") or (is_on and state == before):
                continue
            logger.write(trial, is_on)
            written[attempt] = state
            show_life()  # a resume may write many trials
        show_life()
    logger.close()


def attempts_in(record: Record) -> Iterator[TrialRow]:
    """Each attempt of each trial, which has a run of its own in a logger."""
    for trial in record.trials:
        yield from (*trial.attempts, trial)


def main(name: str, folder: str, every_s: str) -> None:
    """Follow a sweep; what is printed are empty lines as signs of life, and the reason of a failure."""
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # packages print

        def show_life() -> None:
            with contextlib.suppress(BrokenPipeError):  # without a driver, the rest is written all the same
                os.write(answer.fileno(), b"\n")

        try:
            _follow(name, Path(folder), float(every_s), show_life)
        except (Exception, SystemExit) as error:  # whatever it is, the sweep continues without this logger
            print(error if isinstance(error, UserError) else reason_of(error), file=answer)
            raise SystemExit(1) from None


if __name__ == "__main__":
    main(*sys.argv[1:])
