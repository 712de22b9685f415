"""The program that starts Ray on this PC for a sweep, and holds it: `ray_head.py SETTINGS`

The settings are JSON: the arguments of `ray_connection.init`. Ray starts after a line of input, or when that
has not come for a while. Its address is printed as a line of JSON, or why there is none. Ray's processes end
with this one (Ray sets their PR_SET_PDEATHSIG), which ends with the sweep: at the latest when its input is
closed.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path
from typing import Any

from sweeps.common import ray_connection
from sweeps.common.errors import RayNotStarted

LONG_PLAN_S = 1.0
"""Most plans are made by then. Until it is made, the cores are needed for the imports of the sweep."""


def main(settings: str) -> int:
    import ray

    is_told, _, _ = select.select([sys.stdin], [], [], LONG_PLAN_S)
    if is_told and not sys.stdin.readline():
        return 0
    given: dict[str, Any] = json.loads(settings)
    python = None if given["python"] is None else Path(given["python"])
    try:
        context = ray_connection.init(ray, None, (), (), **{**given, "python": python})
    except RayNotStarted as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    print(json.dumps({"address": context.address_info["gcs_address"]}), flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
