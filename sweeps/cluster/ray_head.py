"""The program that starts Ray on this PC for a sweep, and holds it: `ray_head.py SETTINGS`

The settings are JSON: the arguments of `ray_connection.init`, and PYTHONPATH as Ray's processes are to have
it. Ray starts after a line of input, or when that has not come for a while. Its address, its folder and the
ids of the processes without which it can't be are printed as a line of JSON, or why it has not started. Ray's
processes end with this one (Ray sets their PR_SET_PDEATHSIG), which ends with the sweep: at the latest when
its input is closed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import psutil

from sweeps.common import ray_connection
from sweeps.common.errors import RayNotStarted

LONG_PLAN_S = 1.0
"""Most plans are made by then. Until it is made, the cores are needed for the imports of the workers."""
NEEDED = ("raylet", "gcs_server")
OF_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set in a job of Ray's: it is for the sweep, not for this process."""


def main(settings: str) -> int:
    # Ray's processes may print, and inherit the standard streams.
    reply = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    given: dict[str, Any] = json.loads(settings)
    os.environ.pop(OF_JOB, None)
    os.environ.pop("PYTHONPATH", None)
    if (path := given.pop("PYTHONPATH")) is not None:
        os.environ["PYTHONPATH"] = path

    import ray

    is_told, _, _ = select.select([sys.stdin], [], [], LONG_PLAN_S)
    if is_told and not sys.stdin.readline():
        return 0
    python = None if given["python"] is None else Path(given["python"])
    try:
        context = ray_connection.init(ray, None, (), (), **{**given, "python": python})
    except RayNotStarted as error:
        print(json.dumps({"error": str(error)}), file=reply, flush=True)
        return 1
    below: dict[str, int] = {}
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has ended since
            below[each.name()] = each.pid
    about = {
        "address": context.address_info["gcs_address"],
        "folder": context.address_info["session_dir"],
        "needed": {name: below[name] for name in NEEDED if name in below},
    }
    print(json.dumps(about), file=reply, flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
