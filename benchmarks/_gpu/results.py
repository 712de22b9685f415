"""The file of results: a part that is measured replaces what it found before, the others stay."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._gpu.line import TITLES, Line
from benchmarks._measure import Goal

Results = dict[str, Any]
"""By the name of a part: date, command, machine, runs, lines, goals, remarks, ended."""


def read(file: Path) -> Results:
    """The parts measured so far, in their order."""
    return dict(json.loads(file.read_text())["parts"]) if file.exists() else {}


def merge(file: Path, name: str, part: Mapping[str, Any], order: Sequence[str]) -> Results:
    """Put a part in, and write the file at once; all parts."""
    parts = {**read(file), name: dict(part)}
    parts = {each: parts[each] for each in order if each in parts}
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(".part")
    with written.open("w") as opened:
        opened.write(json.dumps({"date": _now(), "parts": parts}, indent=1) + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    written.replace(file)
    return parts


def part(
    command: str, about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], ended: str, module: Any
) -> dict[str, Any]:
    """What a part found, with its lines and goals.

    Args:
        command: that measured it.
        about: the card and versions.
        runs: what was measured.
        ended: why it ended before all was measured; "" where it was.
        module: of the part.
    """
    goals: Sequence[Goal] = module.goals(runs)
    lines: Sequence[Line] = module.lines(runs)
    machine = {key: value for key, value in _measure.machine().items() if key not in about}
    return {
        "date": _now(),
        "command": command,
        "machine": {**about, **machine},
        "ended": ended,
        "lines": [vars(line) for line in lines],
        "goals": [{**vars(goal), "is_met": goal.is_met} for goal in goals],
        "remarks": list(module.remarks(runs)),
        "runs": list(runs),
    }


def table(parts: Results) -> str:
    """All parts, one below the other."""
    rows = [Line(**line).cells(name) for name, part in parts.items() for line in part["lines"]]
    return _measure.table(TITLES, rows)


def machines(parts: Results) -> str:
    """Each machine, two lines: what was measured there, and when; its card, driver and versions."""
    found: dict[str, tuple[list[str], set[str]]] = {}
    for name, part in parts.items():
        about = defaultdict(lambda: "-", part["machine"])  # a process may end before it has told it
        software = f"driver {about['driver']}, CUDA {about['cuda']}"
        words = f"{about['card']}, {software}, {about['cores']} cores"
        versions = ", ".join(f"{each} {about[each]}" for each in ("torch", "lightning", "ray", "deepspeed"))
        names, days = found.setdefault(f"{words}, Python {about['python']}, {versions}", ([], set()))
        names.append(name)
        days.add(part["date"][:10])
    return "\n".join(
        f"{', '.join(names)} ({', '.join(sorted(days))}):\n{words}" for words, (names, days) in found.items()
    )


def words(name: str, part: Mapping[str, Any]) -> list[str]:
    """What the table doesn't say of a part: its remarks, its end, then its goals."""
    ended = [f"{name}: not complete: {part['ended']}"] if part["ended"] else []
    goals = [Goal(goal["name"], goal["value"], goal["relation"], goal["bound"]) for goal in part["goals"]]
    return [*(f"{name}: {remark}" for remark in part["remarks"]), *ended, *(goal.line() for goal in goals)]


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z")
