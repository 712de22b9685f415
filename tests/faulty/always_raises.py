"""A space in which every trial fails."""

from ray import tune

SPACE = {"fault": tune.grid_search(["raises", "exits"])}
