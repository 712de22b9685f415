"""Sweeps that run in a process of their own, and are steered from here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from sweeps.record.record import Record
from tests import ROOT

MOST_S = 240.0


class RunningSweep:
    """A sweep, begun or resumed, that writes what it prints into a file."""

    def __init__(self, folder: Path, environment: dict[str, str], arguments: Sequence[str]) -> None:
        self.folder, self._environment = folder, environment
        self._new = [*arguments, "--results-dir", str(folder.parent), "--name", folder.name]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Begin it, or resume it where it has begun."""
        words = ["--resume", str(self.folder)] if self.folder.exists() else self._new
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sweeps.run", *words, *more, "--no-ray-dashboard"],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self.folder.with_suffix(".log")

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def printed(self) -> str:
        return self._log.read_text()

    def record(self) -> Record:
        return Record.read(self.folder)

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`sweeps control FOLDER WORDS`"""
        command = [sys.executable, "-m", "sweeps.control", str(self.folder), *words]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=60
        )

    def begin_control(self, *words: str) -> subprocess.Popen[str]:
        """The same, which is still waiting."""
        return subprocess.Popen(
            [sys.executable, "-m", "sweeps.control", str(self.folder), *words],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def does(self, *words: str) -> str:
        """What is answered to a command that is carried out."""
        done = self.control(*words)
        assert done.returncode == 0, done.stderr + self.printed
        return done.stdout.strip()

    def refuses(self, *words: str) -> str:
        """Why a command is refused."""
        done = self.control(*words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stderr.startswith("error: "), done.stderr
        return done.stderr.removeprefix("error: ").strip()

    def wait_until(self, what: str, holds: Callable[[Record], bool]) -> Record:
        """The record as soon as it holds."""
        ends = time.monotonic() + MOST_S
        while time.monotonic() < ends:
            with contextlib.suppress(FileNotFoundError):
                if holds(record := self.record()):
                    return record
            if self._process is not None and self._process.poll() is not None:
                pytest.fail(f"the sweep ended, and not: {what}\n{self.printed}")
            time.sleep(0.1)
        pytest.fail(f"not within {MOST_S:g} s: {what}\n{self.printed}")

    def wait_for(self, words: str) -> None:
        """Wait until it prints something."""
        self.wait_until(f"it prints {words}", lambda record: words in self.printed)

    def wait(self) -> int:
        """Its exit status."""
        assert self._process is not None
        return self._process.wait(MOST_S)

    def interrupt(self) -> None:
        """Ctrl-C."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """As a power cut, for the driver alone: its Ray ends when nobody uses it any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(MOST_S)

    def kill_below(self, name: str) -> list[psutil.Process]:
        """Kill its process of this name, as the kernel does where memory runs out; all that it had."""
        assert self._process is not None
        below = psutil.Process(self._process.pid).children(recursive=True)
        (victim,) = [each for each in below if each.name() == name]
        victim.kill()
        return below

    def suspend(self) -> None:
        """Let the driver do nothing until `go_on`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it do what it did."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End it and all that it has started."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(MOST_S)


@contextlib.contextmanager
def running(folder: Path, environment: dict[str, str], *arguments: str) -> Iterator[RunningSweep]:
    """A sweep that has begun, ended with the block."""
    sweep = RunningSweep(folder, environment, arguments)
    sweep.start()
    try:
        yield sweep
    finally:
        sweep.end()


def epochs(record: Record, number: int) -> int:
    """Epochs that a trial has reported; -1 where it has not begun."""
    return len(record.trials[number].epochs) if number < len(record.trials) else -1


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def alive_after(timeout_s: float, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The processes that have not ended within a time. What has ended may stay a zombie for ever."""
    ends = time.monotonic() + timeout_s
    while alive := [each for each in processes if is_alive(each.pid)]:
        if time.monotonic() > ends:
            break
        time.sleep(0.2)
    return alive
