"""`sweeps pcs down [ray_cluster.yaml]`: stop Ray on every PC of the cluster file.

`ray down` ends the head alone and prints "No nodes remaining"; the workers end a minute later, when they have
missed the head (teardown_cluster in Ray's autoscaler/_private/commands.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sweeps.common.cli import json_output
from sweeps.common.formatting import count
from sweeps.pcs.cluster_file import PYTHON, CannotReach, ClusterFile

STOP = f"{Path(PYTHON).parent}/ray stop"
"""Ends the Ray processes of this user, after a while by force."""


def run(file: ClusterFile) -> int:
    """The command; its exit status."""
    # `ray down` first: the autoscaler on the head would restart workers that have ended.
    launcher = Path(sys.executable).with_name("ray")
    subprocess.run([str(launcher), "down", "-y", str(file.path)], check=False, capture_output=True)
    faults = [line for line in file.on_each(lambda address: _stop(file, address)).values() if line]
    json_output.answer(pcs=file.pcs, faults=faults)
    print("\n".join(faults) or f"Ray has stopped on {count(len(file.pcs), 'PC')}.")
    return 1 if faults else 0


def _stop(file: ClusterFile, address: str) -> str:
    """What went wrong; "" where Ray has stopped."""
    try:
        answer = file.run(address, STOP)
    except CannotReach as error:
        return f"{address}: {error.reason}; {error.remedy}"
    return f"{address}: {STOP}: {answer.last_line}" if answer.status else ""
