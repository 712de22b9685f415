"""What a PC knows of a process that has ended there."""

from __future__ import annotations

import re
from pathlib import Path

from sweeps.trial import output


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
