"""Six toys."""

from ray import tune

SPACE = {"slope": tune.choice([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])}
