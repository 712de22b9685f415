"""environment.txt: what each run of a sweep ran with, so that it can be repeated.

And what is compared of PCs: versions of packages, and clocks.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweeps.common.errors import CannotContinue
from sweeps.common.formatting import command, count, duration
from sweeps.common.imports import DISTRIBUTION, OF_A_CHECKOUT, release_of
from sweeps.ray_cluster import gpus as cluster_gpus
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.nodes import Node

PACKAGES = ("ray", "torch", "lightning", "optuna", "pyarrow", "numpy", "greenlet")
"""Those that the result of a trial depends on."""
MAX_SKEW_S = 2.0
"""Times of trials on several PCs are compared; tokens and certificates are valid for hours."""
DRIVER, HARDWARE, CLOCK = "gpu driver", "hardware", "clock"

Facts = Mapping[str, str]
"""Of a PC: versions, also that of DRIVER; HARDWARE in words; CLOCK in words where it is wrong."""


def note(folder: Path, cluster: Cluster) -> None:
    """Add this run to environment.txt in the folder of a sweep; warn where the PCs of a cluster differ.

    Raises:
        CannotContinue: it can't be written, as on a full disk.
    """
    pcs = {} if cluster.is_alone else facts_of_every_pc(cluster.nodes())
    if different := differences(pcs):
        print("warning    PCs differ, so the same params may score differently there:", flush=True)
        print("".join(f"             {line}\n" for line in different), flush=True)
    for pc, facts in pcs.items():
        if facts and CLOCK in facts:
            print(f"warning    the clock of {pc} is {facts[CLOCK]}: timedatectl set-ntp true\n", flush=True)
    text = describe(cluster)
    for pc, facts in pcs.items():
        words = "no answer" if facts is None else ", ".join(map(" ".join, facts.items()))
        text += f"{'pc':<10} {pc}: {words}\n"
    path = folder / "environment.txt"
    try:  # settings that a program gives may be no UTF-8
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
    except OSError as error:
        raise CannotContinue(f"{path} can't be written: {error.strerror or error}") from None


def facts_of_every_pc(there: Sequence[Node]) -> dict[str, Facts | None]:
    """The facts of each PC, by its name; None where it does not answer."""
    before = time.time()
    answers = nodes.ask(there, _with_time)
    asked_between = (before, time.time())
    found: dict[str, Facts | None] = {}
    for node in sorted(answers, key=lambda node: node.name):
        found[node.name] = None
        if answers[node].value is not None:
            facts, clock = answers[node].value
            fault = clock_fault(clock_skew_s(clock, asked_between))
            found[node.name] = {**facts, CLOCK: fault} if fault else facts
    return found


def _with_time() -> tuple[Facts, float]:
    return facts_of_this_pc(), time.time()


def facts_of_this_pc() -> Facts:
    """The facts of this PC."""
    gpus = cluster_gpus.list_gpus()
    drivers = sorted({card.driver for card in gpus})
    hardware = [_cpus_and_memory(), *sorted({card.name for card in gpus})]
    driver = {DRIVER: " and ".join(drivers)} if drivers else {}
    # Where this program is installed, it is not sent, and each PC trains with its own.
    is_installed = Path(__file__).parents[2].name in ("site-packages", "dist-packages")
    own = {"sweeps": release_of(DISTRIBUTION) or OF_A_CHECKOUT} if is_installed else {}
    return {**own, **versions(), **driver, HARDWARE: ", ".join(hardware)}


def differences(pcs: Mapping[str, Facts | None]) -> list[str]:
    """A line for each fact that differs, as `torch 2.13.0 (2 PCs), 2.12.1 (pc3)`.

    Hardware may differ, a PC without a GPU has no driver, and a wrong clock has a warning of its own.
    """
    lines = [f"{pc} did not answer" for pc, facts in pcs.items() if facts is None]
    answered = {pc: facts for pc, facts in pcs.items() if facts is not None}
    for name in dict.fromkeys(name for facts in answered.values() for name in facts):
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for pc, facts in answered.items():
            if name in facts:
                owners[facts[name]].append(pc)
        if len(owners) > 1 and name not in (HARDWARE, CLOCK):
            commonest, *others = sorted(owners, key=lambda version: -len(owners[version]))
            many = len(owners[commonest])
            first = count(many, "PC") if many > 1 else owners[commonest][0]
            texts = [f"{commonest} ({first})", *(f"{one} ({', '.join(owners[one])})" for one in others)]
            lines.append(f"{name} {', '.join(texts)}")
    return lines


def describe(cluster: Cluster) -> str:
    """Time, command, versions, commit and hardware of a run, a line each."""
    lines = [
        ("started", time.strftime("%Y-%m-%d %H:%M:%S %z")),
        ("command", command("run", *sys.argv[1:])),
        *versions().items(),
        ("commit", _commit()),
        ("system", platform.platform()),
        ("this PC", f"{platform.node()}, {_cpus_and_memory()}"),
        ("cluster", cluster.size),
        *[("gpu", f"{card.words}, driver {card.driver}") for card in cluster_gpus.list_gpus()],
    ]
    return "".join(f"{title:<10} {text}\n" for title, text in lines)


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """The versions on this PC, "not installed" where there is none; `more` are packages of a searcher."""
    releases = {package: release_of(package) or "not installed" for package in (*PACKAGES, *more)}
    return {"python": platform.python_version(), **releases}


def clock_skew_s(clock: float, asked_between: tuple[float, float]) -> float:
    """Seconds by which the clock of another PC is ahead (negative: behind), at least.

    Args:
        clock: its time in seconds since 1970.
        asked_between: the time on this PC before the clock was read, and after.
    """
    before, after = asked_between
    return max(0.0, clock - after) or min(0.0, clock - before)


def clock_fault(skew_s: float) -> str:
    """A skew in words, as `1 min 30 s ahead of this PC`; "" where it is small enough."""
    if abs(skew_s) <= MAX_SKEW_S:
        return ""
    return f"{duration(abs(skew_s))} {'ahead of' if skew_s > 0 else 'behind'} this PC"


def _cpus_and_memory() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{count(os.cpu_count() or 0, 'CPU')}, {memory / 2**30:.1f} GiB"


def _commit() -> str:
    """The git commit of the code that runs, marked where files differ from it."""
    here = str(Path(__file__).parent)
    words = ("git", "-C", here, "describe", "--always", "--dirty", "--abbrev=40")
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "not a git checkout"
