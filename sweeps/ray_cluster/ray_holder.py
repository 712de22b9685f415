"""The process that holds the Ray of this PC: it starts it, and ends it when no sweep uses it any more.

`python -m sweeps.ray_cluster.ray_holder FOLDER LOCK ANSWER DASHBOARD`, by `shared_ray`. Ray's processes end
with this one, also where it is killed. At SIGTERM it ends once nobody uses it, even where it was to stay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import ray

from sweeps.common.errors import CannotContinue, UserError
from sweeps.ray_start import queued_sweeps, ray_connection
from sweeps.ray_start.ray_folder import GCS, RAYLET, RayFolder, state_of

LOOK_EVERY_S = 0.2
FORGET_EVERY_S = 600.0
"""Sweeps of the queue that were killed are forgotten so late, since a PC that shuts down kills them, too."""


def main(folder: str, lock: str, answer: str, dashboard: str) -> int:
    """The process that a sweep has started; the exit status."""
    for number in (lock, answer):
        os.set_inheritable(int(number), False)  # Ray's processes would hold them
    if not Path(folder).is_dir():  # somebody has removed it
        return 1

    def tell(words: str) -> None:
        os.close(int(lock))
        with contextlib.suppress(BrokenPipeError):  # the sweep was killed; another one may have joined
            os.write(int(answer), words.encode())
        os.close(int(answer))

    ray_folder = RayFolder(Path(folder))
    try:
        begin(ray_folder, dashboard=bool(int(dashboard)))
    except (CannotContinue, UserError) as error:
        tell(str(error))
        return 1
    tell("ready")
    return hold(ray_folder)


def begin(ray_folder: RayFolder, *, dashboard: bool) -> None:
    """Start a Ray, which others find then. The folder is locked.

    Raises:
        CannotContinue: it does not start.
        UserError: no folder of this PC is of use for it.
    """
    ray_folder.remove()  # what is left of another one
    context = ray_connection.start(ray, dashboard=dashboard)
    children = {}
    for child in psutil.Process().children():
        if (name := child.name()) in (RAYLET, GCS):
            children[name] = child.pid
    address = ray.get_runtime_context().gcs_address
    ray_folder.write(state_of(address, children, context.dashboard_url or ""))


def hold(ray_folder: RayFolder) -> int:
    """Wait until nobody uses it, and end it; the exit status: 1, it has ended by itself."""
    signal.signal(signal.SIGTERM, lambda *_: ray_folder.set_stays(False))
    mine, forgets_s = ray_folder.state(), time.monotonic()
    while mine is not None and ray_folder.state() == mine:
        ray_folder.keep_fresh()
        if time.monotonic() >= forgets_s:
            forgets_s = time.monotonic() + FORGET_EVERY_S
            queued_sweeps.forget_killed()
        if not (ray_folder.is_used or ray_folder.stays):
            with ray_folder.locked(wait=False) as lock:
                if lock is not None and not (ray_folder.is_used or ray_folder.stays):
                    ray_folder.remove()
                    ray_connection.shut_down(ray)
                    return 0
        time.sleep(LOOK_EVERY_S)
    # A process of Ray is gone, for which Ray would wait, or the folder, and there may be another one.
    os._exit(1)  # with which all that is left of it ends


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
