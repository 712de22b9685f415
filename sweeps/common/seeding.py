"""The seed of one run."""

from __future__ import annotations

import os


def seed_of_run() -> int:
    """For `build_data`: the seed that Lightning's `seed_everything` leaves for other processes, or 0."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))
