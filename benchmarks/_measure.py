"""What the benchmarks share: the machine in words, medians, goals, the file of results."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeVar

Arm = TypeVar("Arm")
RESULTS = "BENCHMARK_RESULTS"
"""Variable of the folder for results, in place of those that are committed."""
PR_SET_CHILD_SUBREAPER = 36
PACKAGES = ("ray", "torch", "lightning", "optuna", "numpy")


@dataclass(frozen=True)
class Goal:
    """A figure that is to stay on one side of a bound."""

    name: str
    value: float | None
    """None: not measured this time."""
    relation: Literal["<=", ">="]
    bound: float

    @property
    def is_met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value <= self.bound if self.relation == "<=" else self.value >= self.bound

    def line(self) -> str:
        """`overhead_24 1.43 (goal <= 2.0) met`"""
        value = "-" if self.value is None else f"{self.value:.2f}"
        word = {None: "not measured", True: "met", False: "missed"}[self.is_met]
        return f"{self.name} {value} (goal {self.relation} {self.bound}) {word}"


def median(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return statistics.median(values) if values else None


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Of each repeat by itself: both ran under the same load."""
    return [one / other for one, other in zip(above, below, strict=True)]


def in_turn(arms: Sequence[Arm], repeat: int) -> list[Arm]:
    """The arms of a repeat; another one begins each time, so that none is always the first."""
    start = repeat % len(arms) if arms else 0
    return [*arms[start:], *arms[:start]]


def busy_cores(seconds: float = 1.0) -> float:
    """Cores that others keep busy just now."""
    before, began = busy_s(), time.perf_counter()
    time.sleep(seconds)
    return (busy_s() - before) / (time.perf_counter() - began)


def run_together(
    commands: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> tuple[float, float]:
    """Start processes at once and wait for all.

    Returns:
        Seconds from the first start to the last exit, and CPU seconds of the whole machine in that time:
        Ray's processes outlive those that started them, and tell nobody what they used.

    Raises:
        RuntimeError: one failed; its output is quoted.
    """
    adopt_orphans()
    try:
        busy_before, began, running = busy_s(), time.perf_counter(), []
        for number, command in enumerate(commands):
            log = folder / f"output_{number}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment}
                )
            running.append((process, log))
        for process, _ in running:
            process.wait()
        wall_s, cpu_s = time.perf_counter() - began, busy_s() - busy_before
    except KeyboardInterrupt:
        _end([process for process, _ in running])
        raise
    finally:
        bury_orphans()
    for process, log in running:
        if process.returncode != 0:
            said = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"exit status {process.returncode}:\n{said}")
    return wall_s, cpu_s


def _end(processes: Sequence[subprocess.Popen[bytes]], patience_s: float = 30.0) -> None:
    """End processes as Ctrl-C does; those that stay, for good."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    until = time.monotonic() + patience_s
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def machine() -> dict[str, Any]:
    """Hardware and versions."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system() + " " + platform.release().split("-")[0],
        "python": platform.python_version(),
        **{package: version_of(package) for package in PACKAGES},
    }


def version_of(package: str) -> str:
    """Of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def results() -> Path:
    """The folder of the results."""
    return Path(os.environ.get(RESULTS) or Path(__file__).parent / "results")


def write(name: str, content: Mapping[str, Any], goals: Sequence[Goal], program: str = "") -> None:
    """`results/NAME.json`; the goals, as the last lines on the screen.

    `program` is the benchmark, if it has another name.
    """
    results().mkdir(exist_ok=True)
    given = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    whole = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": " ".join(["python -m", f"benchmarks.{program or name}", *given]),
        "machine": machine(),
        **content,
        "goals": [{**vars(goal), "is_met": goal.is_met} for goal in goals],
    }
    (results() / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")
    for goal in goals:
        print(goal.line(), flush=True)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join(padded).rstrip()

    return "\n".join(map(line, [titles, *rows]))


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def adopt_orphans() -> None:
    """Become the parent of processes whose parent goes, as some of Ray's, until `bury_orphans`."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury_orphans(patience_s: float = 20.0) -> None:
    """Wait for the processes that were adopted: the next arm shall have the machine for itself. Later ones
    are not adopted."""
    until = time.monotonic() + patience_s
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(0.1)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def busy_s() -> float:
    """CPU seconds of the whole machine since its start."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
