"""The seed of one run, as its processes know it."""

from __future__ import annotations

import os


def seed_of_run() -> int:
    """The seed that this run was given, as Lightning's `seed_everything` leaves it for other processes; 0
    where there is none. `build_data` finds it there, and no epoch changes it.
    """
    return int(os.environ.get("PL_GLOBAL_SEED", 0))
