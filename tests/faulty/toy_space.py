"""Every fault once, on a grid."""

from ray import tune

SPACE = {"fault": tune.grid_search(["none", "raises", "flaky", "exits", "diverges", "killed"])}
