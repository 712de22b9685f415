"""environment.txt: what each run of a sweep ran with, so that it can be run again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sweeps.cluster import Cluster
from training.words import command

PACKAGES = ("ray", "torch", "lightning", "optuna", "pyarrow", "numpy", "greenlet")


def note(folder: Path, offered: Cluster) -> None:
    """Add this run to the environment.txt of a sweep."""
    with (folder / "environment.txt").open("a", encoding="utf-8") as file:
        file.write(describe(offered) + "\n")


def describe(offered: Cluster) -> str:
    """Time, command, versions, commit and hardware of a run, a line each."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        ("started", time.strftime("%Y-%m-%d %H:%M:%S %z")),
        ("command", command("sweeps.run", *sys.argv[1:])),
        *versions().items(),
        ("commit", _commit()),
        ("system", platform.platform()),
        ("this PC", f"{platform.node()}, {os.cpu_count()} CPUs, {memory_gb:.1f} GiB"),
        ("cluster", offered.size),
        *[("gpu", line) for line in _gpus()],
    ]
    return "".join(f"{title:<10} {text}\n" for title, text in lines)


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Python and the packages that a trial's result depends on; `more` are those of its searcher."""
    return {"python": platform.python_version(), **{name: _version(name) for name in (*PACKAGES, *more)}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The git commit of the code that runs, marked when files differ from it."""
    found = _output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40")
    return found[0] if found else "not a git checkout"


def _gpus() -> list[str]:
    return _output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")


def _output(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines()
