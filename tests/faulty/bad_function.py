"""A sample_from that raises."""

from ray import tune

SPACE = {"slope": tune.sample_from(lambda config: 1 / 0)}
