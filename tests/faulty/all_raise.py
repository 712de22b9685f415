"""A space in which every trial fails with the same error."""

from ray import tune

SPACE = {"fault": tune.choice(["raises"]), "slope": tune.uniform(0, 1)}
