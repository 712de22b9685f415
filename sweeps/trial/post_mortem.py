"""What a PC knows of a process that has ended there."""

from __future__ import annotations

import re
from pathlib import Path

import ray
from ray.exceptions import RayError

from sweeps.cluster import broadcast
from sweeps.trial import output

ANSWER_S = 10.0
"""For the answer of another PC."""


def oom_kills() -> int:
    """Processes of this PC that the kernel has killed for want of memory since it was started."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), flags=re.M)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def examine(output_file: str) -> tuple[str, int]:
    """What a process printed last, and `oom_kills` now."""
    return output.last_words(output_file), oom_kills()


def examine_on(node: str, output_file: str) -> tuple[str, int]:
    """The same on the PC with this id of Ray's; ("", 0) where it does not answer."""
    if node == broadcast.here():
        return examine(output_file)
    try:
        found: tuple[str, int] = ray.get(broadcast.begin_on(node, examine, output_file), timeout=ANSWER_S)
    except RayError:
        return "", 0
    return found
