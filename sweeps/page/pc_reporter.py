"""The process that reports what each PC does, a line of JSON at a time, while somebody looks at *PCs*.

Ray is joined in this process alone: the page goes on where a cluster ends. It ends when its standard input
does.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping
from typing import Any

from sweeps.common.errors import UserError
from sweeps.ray_start import ray_connection, ray_environment
from sweeps.ray_start.ray_folder import ray_folders

REPORT_EVERY_S = 3.0
OF_RAY = "RAY_ADDRESS"
"""By which Ray's own programs find a cluster."""


def main() -> int:
    """The whole program; the exit status. It ends with the Ray that it has joined, and is started again."""
    known = addresses()
    ray_environment.prepare_to_look()
    address = next(filter(_lets_in, [named()] if named() else known), None)
    from sweeps.ray_cluster import nodes  # Ray, which has read its environment now

    if address is not None:
        try:
            with nodes.joined(address):
                reporters = nodes.Reporters()
                while _write({"ray": address, "others": _others(address), "pcs": [*reporters.pcs()]}):
                    pass
            return 0
        except UserError:  # it has ended, or is not ours
            pass
    while _write({"ray": None, "others": _others(), "pcs": nodes.alone()}) and addresses() == known:
        pass
    return 0


def _lets_in(address: str) -> bool:
    """Whether that Ray takes this process, which requires a token from now on where that Ray does."""
    if address in _own():
        ray_environment.require_token()  # as the sweep did that started it
        return True
    try:
        ray_environment.settle_token(address)
    except UserError:  # it has ended, or is not ours
        return False
    return True


def addresses() -> list[str]:
    """Of all Rays whose PCs may be shown: that of the user's environment, those of this user's sweeps here,
    and those of clusters that this PC is in."""
    return list(dict.fromkeys(filter(None, [named(), *_own(), *ray_connection.heads_here()])))


def named() -> str:
    """That of the user's environment, which is then the only one to be shown; "" without one."""
    address = os.environ.get(OF_RAY, "")
    return "" if address == "auto" or "://" in address else address


def _others(address: str | None = None) -> list[str]:
    return [each for each in addresses() if each != (address or named())]


def _own() -> list[str]:
    states = [each.state() for each in ray_folders()]
    return [state.address for state in states if state is not None and state.address]


def _write(content: Mapping[str, Any]) -> bool:
    """Write a line, and wait; whether it is to go on."""
    print(json.dumps(content, default=sorted), flush=True)  # sets of process ids
    is_ended, _, _ = select.select([sys.stdin], [], [], REPORT_EVERY_S)
    return not is_ended


if __name__ == "__main__":
    sys.exit(main())
