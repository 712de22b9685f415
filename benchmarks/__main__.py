"""All benchmarks of this machine, one after another: `python -m benchmarks`, which `make bench` calls.

Each runs with flags that keep all of them together under two hours; run by itself, it repeats more. A
benchmark that fails is named at the end, and the others go on. The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import _measure
from sweeps.common.formatting import duration

BUSY_CORES = 0.3
"""From which on a line says that the machine is not idle."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, as it runs among the others."""

    name: str
    minutes: float
    """That it takes on 2 idle cores with these flags; of gpu, on a card."""
    flags: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return ["python", "-m", f"benchmarks.{self.name}", *self.flags]


PARTS = (
    Benchmark("overhead", 6, ("--trials", "24", "--models", "cnn", "--repeats", "1")),
    Benchmark("scale", 6, ("--trials", "100", "1000", "--repeats", "1")),
    Benchmark("fit_overhead", 4),
    Benchmark("inner_loop", 4, ("--repeats", "2")),
    Benchmark("data_path", 5),
    Benchmark("search", 7, ("--repeats", "1")),
    Benchmark("infeasible", 2, ("--repeats", "1")),
    Benchmark("cluster", 13, ("--slots", "4", "--sleeping-pcs", "1", "4", "--waves", "3", "--repeats", "1")),
    Benchmark("page", 2, ("--repeats", "1")),
    Benchmark("sharing", 16, ("--sweeps", "3", "--minutes", "15", "--skip-s", "240")),
    Benchmark("story", 54, ("--repeats", "1")),
)
GPU = Benchmark("gpu", 40)
"""Skips itself where there is no card."""


def main(arguments: Sequence[str] | None = None) -> int:
    names = [part.name for part in (*PARTS, GPU)]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="some of them (default: all)")
    parser.add_argument("--list", action="store_true", help="say how long each takes, and stop")
    asked = parser.parse_args(arguments)
    parts = [part for part in (*PARTS, GPU) if part.name in asked.only]
    print(plan(parts), flush=True)
    if asked.list:
        return 0
    if (busy := _measure.busy_cores()) > BUSY_CORES:
        print(f"{busy:.1f} cores are busy with other work: the figures count on an idle machine", flush=True)
    failed = []
    for number, part in enumerate(parts, 1):
        print(f"\n[{number}/{len(parts)}, {time.strftime('%H:%M')}] {' '.join(part.words)}", flush=True)
        if subprocess.run([sys.executable, *part.words[1:]], check=False).returncode:
            failed.append(part.name)
    if failed:
        print(f"\nFailed, see above: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def plan(parts: Sequence[Benchmark]) -> str:
    """How long each part takes, and all of them without a card."""
    rows = [(" ".join(part.words), duration(60 * part.minutes)) for part in parts]
    whole = duration(60 * sum(part.minutes for part in parts if part is not GPU))
    last = f"In all about {whole} on 2 idle cores" + (
        "; gpu is skipped without a card." if GPU in parts else "."
    )
    return "\n".join([_measure.table(("benchmark", "takes about"), rows), last])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted: the results of the parts that had ended are written.", file=sys.stderr)
        sys.exit(130)
