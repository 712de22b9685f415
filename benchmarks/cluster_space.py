"""One hyperparameter for the trials of a cluster, which costs the same whatever its value."""

from ray import tune

SPACE = {"lr": tune.loguniform(1e-3, 1e-1)}
