"""environment.txt: what each run of a sweep ran with, so that it can be run again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sweeps.cluster import broadcast, clock_skew
from sweeps.cluster import gpus as cluster_gpus
from sweeps.cluster.nodes import Node
from sweeps.cluster.session import Cluster
from sweeps.common.formatting import command, count

PACKAGES = ("ray", "torch", "lightning", "optuna", "pyarrow", "numpy", "greenlet")
DRIVER, HARDWARE, CLOCK = "gpu driver", "hardware", "clock"
MOST_S = 120
"""That a PC may take to say what it has."""

Has = Mapping[str, str]
"""What a PC runs trials with: Python, packages, DRIVER, each with its version; HARDWARE; a wrong CLOCK."""


def note(folder: Path, cluster: Cluster, *, in_cluster: bool) -> None:
    """Add this run to the environment.txt of a sweep; where PCs of a cluster differ, say so."""
    pcs = of_every_pc(cluster.nodes()) if in_cluster else {}
    if different := differences(pcs):
        print("warning    PCs differ, so the same params may score otherwise there:", flush=True)
        print("".join(f"             {line}\n" for line in different), flush=True)
    for pc, has in pcs.items():
        if has and CLOCK in has:
            print(f"warning    the clock of {pc} is {has[CLOCK]}: timedatectl set-ntp true\n", flush=True)
    with (folder / "environment.txt").open("a", encoding="utf-8") as file:
        file.write(describe(cluster) + "".join(_line(pc, has) for pc, has in pcs.items()) + "\n")


def of_every_pc(there: Sequence[Node]) -> dict[str, Has | None]:
    """What each PC runs trials with, asked at the same time; None of one that does not say."""
    before = time.time()
    answers = broadcast.answers(broadcast.begin(there, _at_this_time), MOST_S)
    between = (before, time.time())
    return {
        node.name: _with_clock(answers[node].said, between)
        for node in sorted(answers, key=lambda node: node.name)
    }


def _at_this_time() -> tuple[Has, float]:
    return of_this_pc(), time.time()


def _with_clock(said: tuple[Has, float] | None, asked_between: tuple[float, float]) -> Has | None:
    if said is None:
        return None
    has, clock = said
    fault = clock_skew.fault(clock_skew.skew(clock, asked_between))
    return {**has, CLOCK: fault} if fault else has


def of_this_pc() -> Has:
    """What this PC runs trials with."""
    gpus = cluster_gpus.of_this_pc()
    drivers = sorted({card.driver for card in gpus})
    names = "".join(f", {name}" for name in sorted({card.name for card in gpus}))
    hardware = f"{count(os.cpu_count() or 0, 'CPU')}, {_memory_gb():.1f} GiB{names}"
    return {**versions(), **({DRIVER: " and ".join(drivers)} if drivers else {}), HARDWARE: hardware}


def differences(pcs: Mapping[str, Has | None]) -> list[str]:
    """A line for each thing that is of several versions, as `torch 2.13.0 (2 PCs), 2.12.1 (pc3)`.

    Hardware may differ, and a PC without a GPU has no driver; of clocks more is said elsewhere.
    """
    lines = [f"{pc} did not say what it runs with" for pc, has in pcs.items() if has is None]
    said = {pc: has for pc, has in pcs.items() if has is not None}
    for name in dict.fromkeys(name for has in said.values() for name in has if name not in (HARDWARE, CLOCK)):
        owners: dict[str, list[str]] = {}
        for pc, has in said.items():
            if name in has:
                owners.setdefault(has[name], []).append(pc)
        if len(owners) > 1:
            commonest, *others = sorted(owners, key=lambda version: -len(owners[version]))
            many = len(owners[commonest])
            first = count(many, "PC") if many > 1 else owners[commonest][0]
            texts = [f"{commonest} ({first})", *(f"{one} ({', '.join(owners[one])})" for one in others)]
            lines.append(f"{name} {', '.join(texts)}")
    return lines


def _line(pc: str, has: Has | None) -> str:
    words = "did not say what it has" if has is None else ", ".join(f"{name} {has[name]}" for name in has)
    return f"{'pc':<10} {pc}: {words}\n"


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def describe(cluster: Cluster) -> str:
    """Time, command, versions, commit and hardware of a run, a line each."""
    lines = [
        ("started", time.strftime("%Y-%m-%d %H:%M:%S %z")),
        ("command", command("run", *sys.argv[1:])),
        *versions().items(),
        ("commit", _commit()),
        ("system", platform.platform()),
        ("this PC", f"{platform.node()}, {os.cpu_count()} CPUs, {_memory_gb():.1f} GiB"),
        ("cluster", cluster.size),
        *[("gpu", f"{card.words}, driver {card.driver}") for card in cluster_gpus.of_this_pc()],
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
    here = str(Path(__file__).parent)
    asked = ("git", "-C", here, "describe", "--always", "--dirty", "--abbrev=40")
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "not a git checkout"
    return done.stdout.strip()
