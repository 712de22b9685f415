"""How a sweep scales with PCs: `python -m benchmarks.cluster`

PCs are network namespaces of this machine (`tests/support/lab.py`), each with a Ray of its own, joined by a
network: root, and the programs of the tests of several PCs, are needed. Two kinds of trials, none of them
pruned:

  fashion_cnn  1, 2 and 3 PCs with one CPU each, 2,000 rows; no more can be shown than this machine has cores
  sleeping     1, 2 and 4 PCs with up to 16 slots each, 64 in all; a trial does nothing but sleep, 3 times
               15 s, so that what is lost is the sweep's own: to propose, start, hear, judge, record and
               replace trials (a slot takes 0.47 GB of memory, 64 of them 30 GB; swap will do, for they sleep)

Trials per hour are those of each process, from one end of a trial to another, added up; they count from the
moment that each of them has ended a trial (all are warm). Efficiency is that rate per slot, as a share of the
rate per slot of one PC; `of ideal`, for trials that sleep, as a share of what sleeping alone allows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import _measure, _throughput
from benchmarks._measure import Goal
from tests.support import lab
from tests.support.cluster_of_pcs import PYTHON, RAY, give_token, nodes

EPOCHS = 3
GB_PER_SLOT = 0.47
"""A process that trains takes 0.43 GB, from its first trial on; the rest is Ray's own on each PC."""
MOST_SLOTS = 16
USED_SHARE = 0.7
"""Of the free memory, where no slots are given. The rest holds the files that Python reads: without it 48
slots did not get past their start in 6 min."""
GOAL_PERCENT = 90.0
ARMS: dict[str, dict[str, Any]] = {
    "fashion_cnn": {"trainable": "fashion_cnn", "search-space": "benchmarks.cluster_space"},
    "sleeping": {"trainable": "benchmarks.sleeper", "search-space": "benchmarks.trivial_space"},
}
HYPERPARAMETERS = {"fashion_cnn": "rows=2000", "sleeping": "epoch_s={epoch_s}"}
RAY_SETTINGS = {"RAY_AUTH_MODE": "token", "RAY_memory_monitor_refresh_ms": "0"}
"""Ray kills trials when 95 % of the memory is in use, and knows no swap (its Out-Of-Memory Prevention)."""

Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    _check(parser, asked)
    if (why := lab.why_not()) is not None:
        print(f"error: {why}", file=sys.stderr)
        return 2
    rounds = {
        "fashion_cnn": [(pcs, 1) for pcs in asked.pcs],
        "sleeping": [(pcs, asked.slots) for pcs in asked.sleeping_pcs],
    }
    runs: list[Run] = []
    for repeat in range(asked.repeats):
        for arm, sizes in rounds.items():
            for pcs, slots in _measure.in_turn(sizes, repeat):
                runs.append({"repeat": repeat, **one_sweep(arm, pcs, slots, asked)})
                print(f"{arm}, repeat {repeat + 1}: {_words(runs[-1])}", flush=True)
    medians = summary(runs)
    print(describe(medians), flush=True)
    _measure.write("cluster", {"runs": runs, "medians": medians}, goals(medians))
    return 0


def one_sweep(arm: str, pcs: int, slots: int, asked: argparse.Namespace) -> Run:
    """A sweep on a cluster of its own: so many PCs with so many slots each."""
    from sweeps.record.record import Record

    busy, trials = _measure.busy_cores(), asked.waves * pcs * slots
    with tempfile.TemporaryDirectory(prefix="cluster-") as base:
        folder = Path(base) / "lab"
        folder.mkdir()
        with lab.made(folder, shared=[Path(base)]) as made:
            address = _start_ray(made.add(pcs), slots)
            flags = {
                **ARMS[arm], "params": HYPERPARAMETERS[arm].format(epoch_s=asked.epoch_s),
                "searcher": "random", "scheduler": "none", "num-trials": trials, "max-epochs": EPOCHS,
                "cpus-per-trial": 1, "results-dir": base, "name": "sweep", "address": address,
            }  # fmt: skip
            words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
            done = made.pcs[0].run(PYTHON, "-m", "sweeps.run", *words, check=False, timeout_s=3600)
            if done.returncode != 0:
                raise RuntimeError(done.stdout[-3000:])
        record = Record.read(Path(base) / "sweep")
    ended = [((t.place["pc"], t.place["pid"]), t.end) for t in record.trials if t.end is not None]
    per_hour = _throughput.per_hour(ended, pcs * slots)
    ideal = 3600 * pcs * slots / (EPOCHS * asked.epoch_s)
    return {
        "arm": arm, "pcs": pcs, "slots": pcs * slots, "trials": trials, "trials_per_hour": per_hour,
        "percent_of_ideal": 100 * per_hour / ideal if arm == "sleeping" else None,
        "busy_before": round(busy, 2),
    }  # fmt: skip


def summary(runs: Sequence[Run]) -> list[Run]:
    """Medians over the repeats; each repeat is compared with its own single PC, under the same load."""
    rows = []
    for arm, pcs in dict.fromkeys((run["arm"], run["pcs"]) for run in runs):
        mine, alone = _of(runs, arm, pcs), _of(runs, arm, 1)
        shares = [
            100 * (many["trials_per_hour"] / many["slots"]) / (one["trials_per_hour"] / one["slots"])
            for many, one in zip(mine, alone, strict=False)
        ]
        ideal = [run["percent_of_ideal"] for run in mine if run["percent_of_ideal"] is not None]
        rows.append(
            {
                "arm": arm,
                "pcs": pcs,
                "slots": mine[0]["slots"],
                "trials_per_hour": _measure.median([run["trials_per_hour"] for run in mine]),
                "efficiency_percent": _measure.median(shares),
                "percent_of_ideal": _measure.median(ideal),
            }
        )
    return rows


def describe(medians: Sequence[Run]) -> str:
    return _measure.table(
        ("trials", "PCs", "slots", "trials/h", "efficiency %", "of ideal %"),
        [
            (
                row["arm"],
                str(row["pcs"]),
                str(row["slots"]),
                _measure.number(row["trials_per_hour"], 0),
                _measure.number(row["efficiency_percent"], 0),
                _measure.number(row["percent_of_ideal"], 0),
            )
            for row in medians
        ],
    )


def goals(medians: Sequence[Run]) -> list[Goal]:
    """The largest cluster counts."""
    sleeping = [row for row in medians if row["arm"] == "sleeping"]
    value = max(sleeping, key=lambda row: int(row["pcs"]))["efficiency_percent"] if sleeping else None
    return [Goal("sleeping_efficiency_percent", value, ">=", GOAL_PERCENT)]


def _check(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    """Choose as many slots as have room, where none are given. Exit with status 2 where it would count
    nothing, or fill the memory of this machine."""
    if asked.waves < 3:
        parser.error(f"--waves {asked.waves}: at least 3, the first and the last are not counted")
    most = max(asked.sleeping_pcs, default=1)
    free_gb = (psutil.virtual_memory().available + psutil.swap_memory().free) / 1e9
    fit = int(free_gb / GB_PER_SLOT / most)
    if asked.slots is None:
        asked.slots = max(1, min(MOST_SLOTS, int(fit * USED_SHARE)))
    needed_gb = most * asked.slots * GB_PER_SLOT
    if needed_gb > free_gb:
        parser.error(
            f"--slots {asked.slots} on {most} PCs take {needed_gb:.0f} GB of memory, {free_gb:.0f} GB "
            f"are free, with swap: at most --slots {fit}"
        )


def _start_ray(pcs: Sequence[lab.PC], slots: int) -> str:
    """A head and the others; its address."""
    small = (f"--num-cpus={slots}", "--object-store-memory=100000000", "--disable-usage-stats")
    head, *others = pcs
    address = f"{head.address}:6379"
    for pc in pcs:
        give_token(pc)
    head.run(RAY, "start", "--head", "--include-dashboard=false", *small, env=RAY_SETTINGS, timeout_s=120)
    for pc in others:
        pc.run(RAY, "start", f"--address={address}", *small, env=RAY_SETTINGS, timeout_s=120)
    lab.wait_until(lambda: len(nodes(head)) == len(pcs), "all PCs", 120)
    return address


def _of(runs: Sequence[Run], arm: str, pcs: int) -> list[Run]:
    return [run for run in runs if (run["arm"], run["pcs"]) == (arm, pcs)]


def _words(run: Run) -> str:
    return (
        f"PCs {run['pcs']}, slots {run['slots']}: {run['trials_per_hour']:,.0f} trials/h of {run['trials']} "
        f"({run['busy_before']:.1f} cores busy before)"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--pcs", type=int, nargs="*", default=[1, 2, 3], help=f"cores here: {cores}")
    parser.add_argument("--sleeping-pcs", type=int, nargs="*", default=[1, 2, 4])
    slots = f"of each PC, for trials that sleep (default: as the memory has room, up to {MOST_SLOTS})"
    parser.add_argument("--slots", type=int, help=slots)
    parser.add_argument("--epoch-s", type=float, default=15.0, help="that a trial sleeps in each epoch")
    parser.add_argument("--waves", type=int, default=5, help="trials of each slot, 3 at least")
    parser.add_argument("--repeats", type=int, default=3)
    return parser


if __name__ == "__main__":
    sys.exit(main())
