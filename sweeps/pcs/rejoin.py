"""This PC keeps away from the cluster, until it is told to come back or starts anew."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

MARK = Path("/dev/shm/sweeps-away")
"""While it is there, the head starts no Ray here (`worker_start_ray_commands` of ray_cluster.yaml). Memory: a
PC that starts anew has forgotten it."""
UNIT = "sweeps-pc"


def leave() -> None:
    """Keep the head, whose `worker_ips` this PC may be under, from starting Ray here again."""
    MARK.touch()


def stay() -> None:
    """Take that back."""
    MARK.unlink(missing_ok=True)


def come_back() -> str:
    """Take that back, and start the unit of systemd where there is one; what happens now."""
    was_away = MARK.exists()
    stay()
    if _systemctl("is-enabled", "--quiet", UNIT):
        return "It joins now." if _systemctl("restart", UNIT) else f"systemctl --user restart {UNIT} fails."
    if was_away:
        return "Under worker_ips, the head starts Ray here within a minute; elsewhere: ray start, as before."
    return "It was not away."


def stop_unit() -> bool:
    """End the unit of systemd, which would hold what Ray has left of itself; whether it ran."""
    return _systemctl("is-active", "--quiet", UNIT) and _systemctl("stop", UNIT)


def _systemctl(*words: str) -> bool:
    program = shutil.which("systemctl")
    return (
        program is not None
        and subprocess.run(
            [program, "--user", *words], check=False, capture_output=True, timeout=90
        ).returncode
        == 0
    )
