"""`sweeps pcs back`: let this PC, which was drained and stays away since, join the cluster again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sweeps.common.cli import json_output

MARK = Path("/dev/shm/sweeps-away")
"""While it exists, the head starts no Ray here (`worker_start_ray_commands` of ray_cluster.yaml). It is in
memory, so a reboot removes it."""
UNIT = "sweeps-pc"
STOPS_S = 200.0
"""In which systemd ends the unit: after 90 s, its `TimeoutStopSec`, by force, for which it has as long."""


def run() -> int:
    """The command; its exit status."""
    was_away = MARK.exists()
    remove_mark()
    json_output.answer(was_away=was_away)
    if _systemctl("is-enabled", "--quiet", UNIT):
        if not _systemctl("restart", UNIT):
            why = f"This command failed: systemctl --user restart {UNIT}"
            print(why)
            json_output.answer(error=why)
            return 1
        print("This PC joins now.")
    elif was_away:
        print("If this PC is one of worker_ips, the head starts Ray here within a minute.")
        print("Otherwise start Ray here as you did before: ray start --address=HEAD:6379")
    else:
        print("This PC was not drained.")
    return 0


def stay_away() -> None:
    """Keep the head, of whose `worker_ips` this PC may be, from starting Ray here again."""
    MARK.touch()


def remove_mark() -> None:
    """Let the head start Ray here."""
    MARK.unlink(missing_ok=True)


def stop_unit() -> None:
    """Stop the systemd unit where it runs: it would wait for what is left of Ray."""
    if _systemctl("is-active", "--quiet", UNIT):
        _systemctl("stop", UNIT)


def _systemctl(*words: str) -> bool:
    """Whether a command for the user's systemd succeeded; False where there is no systemd."""
    if (program := shutil.which("systemctl")) is None:
        return False
    try:
        done = subprocess.run([program, "--user", *words], capture_output=True, timeout=STOPS_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
