"""Watches a program and all its processes: when each lived, and when it used a core."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import _measure

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
INTERVAL_S = 0.05
OTHER = "other"
ROLES = (
    ("worker_launcher.py", "launchers"),
    ("(log_monitor)", "Ray: log monitor"),
    ("(monitor)", "Ray: autoscaler"),
    ("(dashboard)", "Ray: dashboard"),
    ("gcs_server", "Ray: gcs server"),
    ("raylet", "Ray: raylet"),
    ("dashboard/dashboard.py", "Ray: dashboard"),
    ("DashboardAgent", "Ray: dashboard agent"),
    ("dashboard/agent.py", "Ray: dashboard agent"),
    ("RuntimeEnvAgent", "Ray: runtime env agent"),
    ("runtime_env/agent/main.py", "Ray: runtime env agent"),
    ("log_monitor.py", "Ray: log monitor"),
    ("autoscaler/_private/monitor.py", "Ray: autoscaler"),
    ("autoscaler/v2/monitor.py", "Ray: autoscaler"),
    ("fork_server", "fork server"),
    ("ray::", "trials"),
    ("default_worker.py", "trials"),
)
"""Part of a command line, or the name of a process in brackets, to its role in a sweep."""


@dataclass
class Watched:
    """One process."""

    pid: int
    role: str
    samples: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the start of the program, and CPU seconds used up to then."""

    def cpu_s(self, until_s: float = float("inf")) -> float:
        """CPU seconds used up to a moment."""
        return max((cpu for at, cpu in self.samples if at <= until_s), default=0.0)


class Watch:
    """Samples all descendants of this process in a thread, from `start` to `stop`."""

    def __init__(self) -> None:
        _measure.adopt_orphans()
        self.processes: dict[int, Watched] = {}
        self.began = time.time()
        self.driver: int | None = None
        """Pid of the program that is watched."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.began = time.time()
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        _measure.bury_orphans()

    def _run(self) -> None:
        while not self._is_over.wait(INTERVAL_S):
            now = time.time() - self.began
            for pid, cpu_s in _descendants(os.getpid()).items():
                seen = self.processes.setdefault(pid, Watched(pid, OTHER))
                seen.samples.append((now, cpu_s))
                if pid == self.driver:
                    seen.role = "driver"
                elif (role := _role(pid)) != OTHER:  # it may have begun as a copy of its parent
                    seen.role = role


def _descendants(root: int) -> dict[int, float]:
    """Pid to CPU seconds."""
    parents: dict[int, int] = {}
    cpu_s: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not (name := folder.name).isdigit():
            continue
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        values = text.rpartition(")")[2].split()
        parents[int(name)] = int(values[1])
        cpu_s[int(name)] = (int(values[11]) + int(values[12])) * TICK_S
    found: set[int] = set()
    for pid in parents:
        chain: list[int] = []
        at = pid
        while at in parents and at != root and at not in found:
            chain.append(at)
            at = parents[at]
        if at == root or at in found:
            found.update(chain)
    return {pid: cpu_s[pid] for pid in found}


def _role(pid: int) -> str:
    try:
        folder = Path("/proc", str(pid))
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        name = (folder / "comm").read_text().strip()
    except OSError:
        return OTHER
    if not command:  # it is ending
        return OTHER
    return next((role for part, role in ROLES if part in f"{command}({name})"), OTHER)


def by_role(processes: Sequence[Watched]) -> dict[str, list[Watched]]:
    """The processes of each role, in order of their start."""
    found: dict[str, list[Watched]] = {}
    for each in sorted(processes, key=lambda each: each.samples[0][0]):
        found.setdefault(each.role, []).append(each)
    return found
