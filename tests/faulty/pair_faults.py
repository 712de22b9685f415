"""Every way in which one of several workers goes wrong."""

from __future__ import annotations

from ray import tune

SPACE = {"fault": tune.grid_search(["none", "flaky", "killed", "killed_first", "raises"])}
