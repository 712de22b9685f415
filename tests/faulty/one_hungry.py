"""A trial that fits in halves, also where two workers share a batch; see `tests.faulty.hungry`."""

from ray import tune

SPACE = {"case": tune.grid_search(["quarter"])}
