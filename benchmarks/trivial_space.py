"""One hyperparameter for the trivial trainable."""

from ray import tune

SPACE = {"x": tune.uniform(0.0, 1.0)}
